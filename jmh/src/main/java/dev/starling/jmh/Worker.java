package dev.starling.jmh;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The process of one contender: reads orders line by line from standard input until it ends, and answers each with a
 * line that starts with {@link #MARK}.
 */
final class Worker {
    /** Starts an answer, since native libraries may print too. */
    static final String MARK = "@ ";
    /** Starts an answer that reports an error. */
    static final String FAILURE = "failed ";

    private final Engine engine;
    private final Clock clock;
    private Case prepared;

    private Worker(Engine engine, Clock clock) {
        this.engine = engine;
        this.clock = clock;
    }

    /** Runs with the contender's name, its number of threads and the clock's name. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Worker worker;
        try {
            Engine engine = Contender.valueOf(arguments[0]).start(Integer.parseInt(arguments[1]));
            worker = new Worker(engine, Clock.valueOf(arguments[2]));
        } catch (RuntimeException | Error e) {
            out.println(MARK + failure(e));
            return;
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(MARK + worker.answer(line.split(" ")));
        }
    }

    private String answer(String[] order) {
        try {
            return switch (order[0]) {
                case "variants" -> String.join(" ", engine.variants(workload(order[1])));
                case "prepare" -> {
                    release();
                    prepared = engine.prepare(workload(order[1]), order[2]);
                    yield "";
                }
                case "warm" -> Long.toString(warm(Long.parseLong(order[1])));
                case "time" -> Long.toString(time(Integer.parseInt(order[1])));
                case "settle" -> Long.toString(settle(Long.parseLong(order[1])));
                case "release" -> {
                    release();
                    yield "";
                }
                default -> throw new IllegalArgumentException("unknown order: " + order[0]);
            };
        } catch (RuntimeException | Error e) {
            return failure(e);
        }
    }

    private static String failure(Throwable e) {
        e.printStackTrace();
        return FAILURE + e.toString().replace('\n', ' ');
    }

    private static Workload workload(String name) {
        return Workload.ALL.stream().filter(workload -> workload.name().equals(name)).findFirst().orElseThrow();
    }

    /** Runs for a time, then returns the time of one run, in nanoseconds. */
    private long warm(long millis) {
        long start = System.nanoTime();
        int runs = 0;
        while (runs < 2 || System.nanoTime() - start < millis * 1_000_000) {
            prepared.run();
            runs++;
        }
        int last = Math.max(1, runs / 4);
        return time(last) / last;
    }

    /** Returns the time of a number of runs, in nanoseconds. */
    private long time(int runs) {
        long start = clock.nanos();
        for (int i = 0; i < runs; i++) {
            prepared.run();
        }
        return clock.nanos() - start;
    }

    /** Runs for a time; returns the nanoseconds until the steady speed. */
    private long settle(long millis) {
        List<Long> ends = new ArrayList<>(List.of(0L));
        long start = clock.nanos();
        while (ends.size() <= Statistics.MIN_RUNS || ends.getLast() < millis * 1_000_000) {
            prepared.run();
            ends.add(clock.nanos() - start);
        }
        double[] times = new double[ends.size() - 1];
        Arrays.setAll(times, i -> ends.get(i + 1) - ends.get(i));
        return ends.get(Statistics.settled(times));
    }

    private void release() {
        if (prepared != null) {
            prepared.close();
            prepared = null;
        }
    }
}
