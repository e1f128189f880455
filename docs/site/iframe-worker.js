// Search without a server: browsers start no worker from a file, so its script runs in a hidden frame. mkdocs-material
// asks for a script of this name; without one it would fetch it from a CDN.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>
        postMessage = message => parent.dispatchEvent(new CustomEvent("${url}", { detail: message }))
        importScripts = (...urls) => Promise.all(urls.map(url => new Promise((onload, onerror) =>
          document.head.append(Object.assign(document.createElement("script"), { src: url, onload, onerror })))))
      </script><script src="${url}"></script>`;
      this.loaded = new Promise(resolve => { frame.onload = () => resolve(frame.contentWindow); });
      window.addEventListener(url, ({ detail }) => this.dispatchEvent(new MessageEvent("message", { data: detail })));
      document.body ? document.body.append(frame) : addEventListener("DOMContentLoaded", () => document.body.append(frame));
    }

    postMessage(data) {
      this.loaded.then(scope => scope.dispatchEvent(new scope.MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
