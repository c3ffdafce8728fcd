package dev.starling.distributed.ps;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A server with a test in place of its network. */
final class Driver implements AutoCloseable {
    static final ServerOptimizer PLAIN = new ServerOptimizer.Sgd(0, 0, 0, false);

    final ServerCore core;
    final Wish wish = new Wish();
    final BlockingQueue<Answer> answers = new LinkedBlockingQueue<>();

    Driver(ServerConfig config, Plan plan) {
        core = ServerCore.open(config, plan, 0, (worker, buffer, length) ->
                answers.add(Answer.of(buffer, 0, length)));
    }

    static Plan plan(int workers, Consistency consistency, ServerOptimizer rule, long... counts) {
        List<Plan.Dense> dense = java.util.stream.IntStream.range(0, counts.length)
                .mapToObj(i -> new Plan.Dense("p" + i, counts[i], rule)).toList();
        return new Plan(1, workers, 64, consistency, dense, List.of());
    }

    static ServerConfig config(Path directory) {
        return new ServerConfig(directory, 64 << 20, 1 << 20, 16, Duration.ofSeconds(20));
    }

    void send(Wish w) {
        long end = System.nanoTime() + 20_000_000_000L;
        while (!core.offer(w.buffer, 0, w.length)) {
            if (System.nanoTime() > end) {
                throw new AssertionError("the ring stays full");
            }
            Thread.onSpinWait();
        }
    }

    Answer ask(Wish w) throws InterruptedException {
        send(w);
        return next();
    }

    Answer next() throws InterruptedException {
        Answer a = answers.poll(20, TimeUnit.SECONDS);
        if (a == null) {
            core.check();
            throw new AssertionError("no answer within 20 s");
        }
        return a;
    }

    Answer join(int worker, long session, int unit, float... initial) throws InterruptedException {
        return ask(wish.of(1, worker, session, 0, unit, 0, 0, initial));
    }

    Answer push(int worker, long session, long sequence, int unit, double rate, float... gradient)
            throws InterruptedException {
        return ask(wish.of(2, worker, session, sequence, unit, rate, 1, gradient));
    }

    float[] pull(int unit) throws InterruptedException {
        return ask(wish.of(4, 0, 0, 0, unit, 0, 0)).floats();
    }

    /** Waits until all that was sent is done, by asking something, and notes who was answered up to where. */
    void settle(boolean[] isWaiting, long[] done) throws InterruptedException {
        Answer a = ask(wish.of(4, 0, 0, 0, 0, 0, 0));
        for (; a.kind() != 4; a = next()) {
            if (a.sequence() == done[a.worker()] - 1) {
                isWaiting[a.worker()] = false;
            }
        }
    }

    @Override
    public void close() {
        core.close();
    }
}
