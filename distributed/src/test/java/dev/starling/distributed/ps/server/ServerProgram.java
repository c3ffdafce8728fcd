package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Plan;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A server core in a process that a test kills. Three workers push gradients of 1 as fast as they are answered, and the
 * program writes every acknowledgement to standard output before the next push. It resumes from its directory.
 */
final class ServerProgram {
    static final int WORKERS = 3;
    static final int UNITS = 4;
    static final int ROWS = 500;
    static final int WIDTH = 3;

    private ServerProgram() {
    }

    static Plan plan() {
        return new Plan(1, WORKERS, 64, new Consistency.Asynchronous(), List.of(new Plan.Dense("p", 64 * 3 + 10,
                ServerDriver.PLAIN)), List.of(new Plan.Table("rows", WIDTH, ROWS * 4, 0, ServerDriver.PLAIN)));
    }

    static ServerConfig config(Path directory) {
        // A short journal, so that a kill often interrupts a snapshot; the cache holds 40 changed rows.
        return new ServerConfig(directory, 60_000, 40 * 48, 16, java.time.Duration.ofSeconds(20));
    }

    static long keyOf(long push, int i) {
        return Plan.mix(push * 31 + i) % ROWS;
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        AtomicLongArray next = new AtomicLongArray(WORKERS * (UNITS + 1));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        RawRequest request = new RawRequest();
        BlockingQueue<RawReply> replies = new LinkedBlockingQueue<>();
        ServerCore core = ServerCore.open(config(Path.of(args[0])), plan(), 0, (w, b, n) ->
                replies.add(RawReply.of(b, 0, n)));
        for (int unit = 0; unit <= UNITS; unit++) {
            for (int w = 0; w < WORKERS; w++) {
                send(core, request.join(w, 7, unit, new float[unit == UNITS ? 0 : unit == 3 ? 10 : 64]));
                long known = nextReply(core, replies).sequence();
                // The test compares this with the acknowledgements written before the last kill.
                out.writeInt(-1 - (w * (UNITS + 1) + unit));
                out.writeLong(known);
                next.set(w * (UNITS + 1) + unit, known + 1);
            }
        }
        out.flush();
        for (int w = 0; w < WORKERS; w++) {
            for (int unit = 0; unit <= UNITS; unit++) {
                push(core, request, w, unit, next.get(w * (UNITS + 1) + unit));
            }
        }
        Random random = new Random();
        while (true) {
            RawReply a = nextReply(core, replies);
            int slot = a.worker() * (UNITS + 1) + a.unit();
            if (a.sequence() < next.get(slot)) {
                continue;
            }
            out.writeInt(slot);
            out.writeLong(a.sequence());
            out.flush();
            next.set(slot, a.sequence() + 1);
            for (int repeat = random.nextInt(20) == 0 ? 2 : 1; repeat > 0; repeat--) {
                push(core, request, a.worker(), a.unit(), next.get(slot));
            }
        }
    }

    private static RawReply nextReply(ServerCore core, BlockingQueue<RawReply> replies) throws InterruptedException {
        RawReply answer = null;
        while (answer == null) {
            core.check();
            answer = replies.poll(100, TimeUnit.MILLISECONDS);
        }
        return answer;
    }

    static void push(ServerCore core, RawRequest request, int worker, int unit, long sequence) {
        if (unit < UNITS) {
            float[] ones = new float[unit == 3 ? 10 : 64];
            java.util.Arrays.fill(ones, 1);
            send(core, request.push(worker, 7, sequence, unit, 1, 1, ones));
        } else {
            long[] keys = new long[8];
            float[] ones = new float[8 * WIDTH];
            java.util.Arrays.fill(ones, 1);
            for (int i = 0; i < 8; i++) {
                keys[i] = keyOf(sequence * WORKERS + worker, i);
            }
            send(core, request.pushRows(worker, 7, sequence, unit, 1, 1, 1, 8, keys, ones));
        }
    }

    private static void send(ServerCore core, RawRequest request) {
        while (!core.offer(request.buffer, 0, request.length)) {
            Thread.yield();
        }
    }
}
