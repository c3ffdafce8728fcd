package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A server core driven by a test instead of a network. */
public final class ServerDriver implements AutoCloseable {
    public static final Rule PLAIN = new Rule.Sgd(0, 0, 0, false);

    public final ServerCore core;
    final RawRequest request = new RawRequest();
    final BlockingQueue<RawReply> replies = new LinkedBlockingQueue<>();

    public ServerDriver(ServerConfig config, Plan plan) {
        core = ServerCore.open(config, plan, 0, (worker, buffer, length) ->
                replies.add(RawReply.of(buffer, 0, length)));
    }

    public static Plan plan(int workers, Consistency consistency, Rule rule, long... counts) {
        List<Plan.Dense> dense = java.util.stream.IntStream.range(0, counts.length)
                .mapToObj(i -> new Plan.Dense("p" + i, counts[i], rule)).toList();
        return new Plan(1, workers, 64, consistency, dense, List.of());
    }

    public static ServerConfig config(Path directory) {
        return new ServerConfig(directory, 64 << 20, 1 << 20, 16, Duration.ofSeconds(20));
    }

    void send(RawRequest message) {
        long end = System.nanoTime() + 20_000_000_000L;
        while (!core.offer(message.buffer, 0, message.length)) {
            if (System.nanoTime() > end) {
                throw new AssertionError("the ring stays full");
            }
            Thread.yield();
        }
    }

    RawReply request(RawRequest message) throws InterruptedException {
        send(message);
        return next();
    }

    RawReply next() throws InterruptedException {
        RawReply a = replies.poll(20, TimeUnit.SECONDS);
        if (a == null) {
            core.check();
            throw new AssertionError("no reply within 20 s");
        }
        return a;
    }

    public RawReply join(int worker, long session, int unit, float... initial) throws InterruptedException {
        return request(request.join(worker, session, unit, initial));
    }

    public RawReply push(int worker, long session, long sequence, int unit, double rate, float... gradient)
            throws InterruptedException {
        return request(request.push(worker, session, sequence, unit, rate, 1, gradient));
    }

    public float[] pull(int unit) throws InterruptedException {
        return request(request.pull(unit)).floats();
    }

    /**
     * Waits until all requests sent are processed, by a pull, and clears the flag of each worker that got its reply.
     */
    void awaitReplies(boolean[] waiting, long[] done) throws InterruptedException {
        RawReply a = request(request.pull(0));
        for (; a.kind() != 4; a = next()) {
            if (a.sequence() == done[a.worker()] - 1) {
                waiting[a.worker()] = false;
            }
        }
    }

    @Override
    public void close() {
        core.close();
    }

    /** Copies a directory while its server runs: the state that a kill would leave. */
    static Path copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()));
            }
        }
        return to;
    }
}
