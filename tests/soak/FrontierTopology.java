import crawlercommons.urlfrontier.URLFrontierGrpc;
import crawlercommons.urlfrontier.Urlfrontier.AckMessage;
import crawlercommons.urlfrontier.Urlfrontier.DiscoveredURLItem;
import crawlercommons.urlfrontier.Urlfrontier.GetParams;
import crawlercommons.urlfrontier.Urlfrontier.KnownURLItem;
import crawlercommons.urlfrontier.Urlfrontier.StringList;
import crawlercommons.urlfrontier.Urlfrontier.URLInfo;
import crawlercommons.urlfrontier.Urlfrontier.URLItem;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Crawls as StormCrawler's topology does: a spout, fetchers, and a status updater with one stream, by the API's own
 * classes. ADDRESS SECONDS FETCHERS FILE SEED...; FILE gets the URLs whose visits were acknowledged.
 */
public class FrontierTopology {
  private static final Pattern LINK = Pattern.compile("href=\"([^\"]+)\"");
  private static final int IN_FLIGHT = 10_000;

  private final ManagedChannel channel;
  private final HttpClient http = HttpClient.newHttpClient();
  private final LinkedBlockingQueue<String> spouted = new LinkedBlockingQueue<>();
  private final Set<String> inProcess = ConcurrentHashMap.newKeySet();
  private final Map<String, URLItem> waiting = new ConcurrentHashMap<>(); // for their acknowledgement, by ID
  private final Set<String> found = ConcurrentHashMap.newKeySet();
  private final Set<String> visited = ConcurrentHashMap.newKeySet();
  private final Semaphore room = new Semaphore(IN_FLIGHT);
  private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
  private StreamObserver<URLItem> stream;
  private long sequence;
  private volatile boolean ended;

  FrontierTopology(String address) {
    channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
  }

  private void count(String what) {
    counts.computeIfAbsent(what, key -> new AtomicLong()).incrementAndGet();
  }

  // --- the status updater
  private synchronized void open() {
    count("streams");
    stream =
        URLFrontierGrpc.newStub(channel)
            .withWaitForReady()
            .putURLs(
                new StreamObserver<AckMessage>() {
                  @Override
                  public void onNext(AckMessage ack) {
                    acknowledge(ack);
                  }

                  @Override
                  public void onError(Throwable error) {
                    if (!ended) replay();
                  }

                  @Override
                  public void onCompleted() {}
                });
  }

  /** Sends what is not acknowledged on a new stream, as Storm replays tuples that have failed. */
  private synchronized void replay() {
    open();
    waiting.values().forEach(item -> stream.onNext(item));
  }

  private synchronized void send(URLItem.Builder item) throws InterruptedException {
    URLItem sent = item.setID(Long.toString(sequence++)).build();
    waiting.put(sent.getID(), sent);
    stream.onNext(sent);
  }

  private void acknowledge(AckMessage ack) {
    URLItem item = waiting.get(ack.getID());
    count((item.hasKnown() ? "known " : "discovered ") + ack.getStatus());
    if (ack.getStatus() == AckMessage.Status.FAIL) {
      synchronized (this) {
        stream.onNext(item);
      }
      return;
    }
    waiting.remove(ack.getID());
    room.release();
    if (item.hasKnown()) visited.add(item.getKnown().getInfo().getUrl());
  }

  private static URLInfo.Builder info(String url) {
    return URLInfo.newBuilder().setUrl(url).setKey(URI.create(url).getHost()).setCrawlID("DEFAULT");
  }

  private void discover(String url) throws InterruptedException {
    found.add(url);
    room.acquire();
    send(URLItem.newBuilder().setDiscovered(DiscoveredURLItem.newBuilder().setInfo(info(url))));
  }

  // --- the spout
  private void spout() throws InterruptedException {
    GetParams params = GetParams.newBuilder().setMaxUrlsPerQueue(10).setMaxQueues(10).setDelayRequestable(3600).build();
    while (!ended) {
      if (spouted.size() < 100) {
        try {
          var pages = URLFrontierGrpc.newBlockingStub(channel).withDeadlineAfter(60, TimeUnit.SECONDS).getURLs(params);
          while (pages.hasNext()) {
            String url = pages.next().getUrl();
            if (!inProcess.add(url)) count("twice");
            spouted.add(url);
          }
        } catch (StatusRuntimeException error) {
          count("spout " + error.getStatus().getCode());
        }
      }
      Thread.sleep(50);
    }
  }

  // --- fetcher and parser
  private void fetch() throws InterruptedException {
    for (String url; (url = spouted.poll(200, TimeUnit.MILLISECONDS)) != null || !ended; ) {
      if (url != null) visit(url);
    }
  }

  private void visit(String url) throws InterruptedException {
    Map<String, String> metadata = new TreeMap<>();
    long date = Instant.now().getEpochSecond() + 1;
    try {
      var request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(10)).build();
      var answer = http.send(request, HttpResponse.BodyHandlers.ofString());
      metadata.put("fetch.statusCode", Integer.toString(answer.statusCode()));
      answer.headers().firstValue("retry-after").ifPresent(wait -> metadata.put("protocol.retry-after", wait));
      if (answer.statusCode() == 301) {
        String target = URI.create(url).resolve(answer.headers().firstValue("location").get()).toString();
        metadata.put("_redirTo", target);
        discover(target);
      } else if (answer.statusCode() == 200) {
        metadata.put("signature", Integer.toHexString(answer.body().hashCode()));
        if (answer.body().contains("never again")) date = 0;
        for (Matcher links = LINK.matcher(answer.body()); links.find(); ) {
          discover(URI.create(url).resolve(links.group(1)).toString());
        }
      }
      count("fetched " + answer.statusCode());
    } catch (IOException error) {
      metadata.put("error.cause", error.toString());
      metadata.put("fetch.error.count", "1");
      count("fetched 0");
    }
    metadata.put("lastProcessedDate", Instant.now().toString());
    URLInfo.Builder visit = info(url);
    metadata.forEach((name, text) -> visit.putMetadata(name, StringList.newBuilder().addValues(text).build()));
    room.acquire();
    inProcess.remove(url);
    send(URLItem.newBuilder().setKnown(KnownURLItem.newBuilder().setInfo(visit).setRefetchableFromDate(date)));
  }

  private interface Work {
    void run() throws InterruptedException;
  }

  private Thread start(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (InterruptedException error) {
                count("interrupted");
              }
            });
    thread.start();
    return thread;
  }

  public static void main(String[] words) throws Exception {
    FrontierTopology crawl = new FrontierTopology(words[0]);
    crawl.open();
    for (int i = 4; i < words.length; i++) crawl.discover(words[i]);
    List<Thread> threads = new ArrayList<>(List.of(crawl.start(crawl::spout)));
    for (int i = 0; i < Integer.parseInt(words[2]); i++) threads.add(crawl.start(crawl::fetch));
    Thread.sleep(1000L * Integer.parseInt(words[1]));
    crawl.ended = true;
    for (Thread thread : threads) thread.join();
    for (int i = 0; i < 600 && !crawl.waiting.isEmpty(); i++) Thread.sleep(100);
    crawl.stream.onCompleted();
    Files.write(Path.of(words[3]), crawl.visited);
    crawl.counts.forEach((what, number) -> System.out.println(what + "=" + number));
    System.out.println("found=" + crawl.found.size());
    System.out.println("unacknowledged=" + crawl.waiting.size());
    System.out.println("in process=" + crawl.inProcess.size());
    crawl.channel.shutdownNow();
  }
}
