import crawlercommons.urlfrontier.URLFrontierGrpc;
import crawlercommons.urlfrontier.Urlfrontier.AckMessage;
import crawlercommons.urlfrontier.Urlfrontier.DiscoveredURLItem;
import crawlercommons.urlfrontier.Urlfrontier.GetParams;
import crawlercommons.urlfrontier.Urlfrontier.KnownURLItem;
import crawlercommons.urlfrontier.Urlfrontier.QueueWithinCrawlParams;
import crawlercommons.urlfrontier.Urlfrontier.StringList;
import crawlercommons.urlfrontier.Urlfrontier.URLInfo;
import crawlercommons.urlfrontier.Urlfrontier.URLItem;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;

/** Calls a url-frontier by the project's own classes: ADDRESS crawl N, or ADDRESS measure N HOSTS ROUNDS. */
public class FrontierCrawler {
  private static final int IN_FLIGHT = 10_000;

  private static URLInfo.Builder info(String url) {
    return URLInfo.newBuilder().setUrl(url).setKey(url.split("/")[2]);
  }

  private static URLItem discovered(String url) {
    return URLItem.newBuilder().setID(url).setDiscovered(DiscoveredURLItem.newBuilder().setInfo(info(url))).build();
  }

  private static URLItem known(String url) {
    StringList status = StringList.newBuilder().addValues("200").build();
    StringList signature = StringList.newBuilder().addValues(Integer.toHexString(url.hashCode())).build();
    URLInfo.Builder visited = info(url).putMetadata("fetch.statusCode", status).putMetadata("signature", signature);
    return URLItem.newBuilder()
        .setID(url)
        .setKnown(KnownURLItem.newBuilder().setInfo(visited).setRefetchableFromDate(4_000_000_000L))
        .build();
  }

  /** Sends items on one stream; returns how many were acknowledged as OK. */
  private static int put(ManagedChannel channel, int count, IntFunction<URLItem> item) throws Exception {
    CountDownLatch done = new CountDownLatch(1);
    Semaphore room = new Semaphore(IN_FLIGHT);
    AtomicInteger taken = new AtomicInteger();
    StreamObserver<URLItem> stream =
        URLFrontierGrpc.newStub(channel)
            .putURLs(
                new StreamObserver<AckMessage>() {
                  @Override
                  public void onNext(AckMessage ack) {
                    if (ack.getStatus() == AckMessage.Status.OK) taken.incrementAndGet();
                    room.release();
                  }

                  @Override
                  public void onError(Throwable error) {
                    error.printStackTrace();
                    room.release(IN_FLIGHT);
                    done.countDown();
                  }

                  @Override
                  public void onCompleted() {
                    done.countDown();
                  }
                });
    for (int i = 0; i < count; i++) {
      room.acquire();
      stream.onNext(item.apply(i));
    }
    stream.onCompleted();
    done.await();
    return taken.get();
  }

  /** Returns the pages of one call, as StormCrawler's spout gets them. */
  private static List<URLInfo> get(ManagedChannel channel) throws Exception {
    GetParams params = GetParams.newBuilder().setMaxUrlsPerQueue(100).setMaxQueues(1000).setDelayRequestable(3600).build();
    List<URLInfo> pages = new ArrayList<>();
    CountDownLatch done = new CountDownLatch(1);
    URLFrontierGrpc.newStub(channel)
        .getURLs(
            params,
            new StreamObserver<URLInfo>() {
              @Override
              public void onNext(URLInfo page) {
                pages.add(page);
              }

              @Override
              public void onError(Throwable error) {
                error.printStackTrace();
                done.countDown();
              }

              @Override
              public void onCompleted() {
                done.countDown();
              }
            });
    done.await();
    return pages;
  }

  private static void crawl(ManagedChannel channel, int count) throws Exception {
    int found = put(channel, count, i -> discovered("https://h" + i % 7 + ".example/" + i));
    System.out.println("put " + count + " ok " + found);
    List<URLInfo> pages = get(channel);
    System.out.println("got " + pages.size() + " of " + pages.stream().map(URLInfo::getKey).distinct().count());
    int visited = put(channel, pages.size(), i -> known(pages.get(i).getUrl()));
    System.out.println("put " + pages.size() + " ok " + visited);
    var stats = URLFrontierGrpc.newBlockingStub(channel).getStats(QueueWithinCrawlParams.getDefaultInstance());
    System.out.println("size " + stats.getSize() + " queues " + stats.getNumberOfQueues());
  }

  /** Prints the seconds and the number of each round of discoveries, leases and outcomes. */
  private static void measure(ManagedChannel channel, int count, int hosts, int rounds) throws Exception {
    for (int round = 0; round < rounds; round++) {
      String part = ".example/" + round + "/";
      long start = System.nanoTime();
      int found = put(channel, count, i -> discovered("https://h" + i % hosts + part + i));
      print("discovered", found, start);
      List<URLInfo> pages = new ArrayList<>();
      start = System.nanoTime();
      for (List<URLInfo> more = get(channel); !more.isEmpty() && pages.size() < count; more = get(channel)) {
        pages.addAll(more);
      }
      print("leased", pages.size(), start);
      start = System.nanoTime();
      print("known", put(channel, pages.size(), i -> known(pages.get(i).getUrl())), start);
    }
  }

  private static void print(String what, int count, long start) {
    System.out.println(what + " " + count + " " + (System.nanoTime() - start) / 1e9);
  }

  public static void main(String[] words) throws Exception {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(words[0]).usePlaintext().build();
    int count = Integer.parseInt(words[2]);
    if (words[1].equals("crawl")) {
      crawl(channel, count);
    } else {
      measure(channel, count, Integer.parseInt(words[3]), Integer.parseInt(words[4]));
    }
    channel.shutdownNow();
  }
}
