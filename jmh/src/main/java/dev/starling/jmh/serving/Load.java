package dev.starling.jmh.serving;

import dev.starling.jmh.Inputs;
import dev.starling.jmh.Model;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/** Clients in threads of their own that send one request after another for a time. */
final class Load {
    private static final int MAX_SAMPLES = 1 << 20;

    private Load() {
    }

    /**
     * What the clients have observed.
     *
     * @param perSecond answers in a second
     * @param p50 median latency in µs
     * @param p99 99th percentile of the latency in µs
     */
    record Observed(double perSecond, double p50, double p99) {
        static Observed parse(String text) {
            String[] numbers = text.split(" ");
            return new Observed(Double.parseDouble(numbers[0]), Double.parseDouble(numbers[1]),
                    Double.parseDouble(numbers[2]));
        }

        @Override
        public String toString() {
            return perSecond + " " + p50 + " " + p99;
        }
    }

    /** Returns the example that client {@code i} sends. */
    static float[] example(Model model, int i) {
        return Inputs.normal(i, model.batchShape(1));
    }

    static Observed run(Server server, Model model, int clients, long millis) {
        CountDownLatch start = new CountDownLatch(1);
        List<Future<long[]>> running = new ArrayList<>();
        List<long[]> latencies = new ArrayList<>();
        long begin;
        long end;
        try (ExecutorService threads = Executors.newFixedThreadPool(clients)) {
            for (int i = 0; i < clients; i++) {
                float[] example = example(model, i);
                UnaryOperator<float[]> client = server.client();
                running.add(threads.submit(() -> {
                    start.await();
                    return send(client, example, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis), clients);
                }));
            }
            begin = System.nanoTime();
            start.countDown();
            for (Future<long[]> client : running) {
                latencies.add(client.get());
            }
            end = System.nanoTime();
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
        long[] sorted = latencies.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        return new Observed(sorted.length * 1e9 / (end - begin), sorted[sorted.length / 2] / 1e3,
                sorted[(int) (sorted.length * 0.99)] / 1e3);
    }

    private static long[] send(UnaryOperator<float[]> client, float[] example, long deadline, int clients) {
        long[] nanos = new long[MAX_SAMPLES / clients];
        int n = 0;
        long before = System.nanoTime();
        while (before < deadline && n < nanos.length) {
            client.apply(example);
            long after = System.nanoTime();
            nanos[n++] = after - before;
            before = after;
        }
        return Arrays.copyOf(nanos, n);
    }
}
