// What the modules of the console use of preact and htm, under one name.

export {
  html,
  render,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./htm-preact-3.1.1.js";
