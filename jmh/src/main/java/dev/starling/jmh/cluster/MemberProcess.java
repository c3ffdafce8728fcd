package dev.starling.jmh.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The process of one member: reads orders line by line from standard input until it ends, and answers each with a line
 * that starts with {@link #MARK} and contains the nanoseconds of one run.
 */
final class MemberProcess {
    /** Starts an answer, since native libraries may print too. */
    static final String MARK = "@ ";

    private static final String END = "end";

    private MemberProcess() {
    }

    /**
     * Runs with the implementation's name, the variant's setting, the rank, the number of members, their directory and
     * this member's host.
     */
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BlockingQueue<String> orders = new LinkedBlockingQueue<>();
        Thread.ofPlatform().daemon().name("orders").start(() -> read(orders));
        try (Member member = Implementation.valueOf(arguments[0]).join(arguments[1],
                new Seat(Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]), Path.of(arguments[4]),
                arguments[5]))) {
            for (String line = next(orders, member); !line.equals(END); line = next(orders, member)) {
                String[] order = line.split(" ");
                int runs = Integer.parseInt(order[2]);
                long nanos = member.time(Measure.of(order[0]), Integer.parseInt(order[1]), runs);
                out.println(MARK + (double) nanos / runs);
            }
        }
        System.exit(0);
    }

    private static String next(BlockingQueue<String> orders, Member member) throws InterruptedException {
        String line = orders.poll();
        while (line == null) {
            member.idle();
            line = orders.poll(1, TimeUnit.MILLISECONDS);
        }
        return line;
    }

    private static void read(BlockingQueue<String> orders) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            in.lines().forEach(orders::add);
        } catch (IOException | UncheckedIOException brokenPipe) {
            System.err.println("cannot read further orders: " + brokenPipe);
        }
        orders.add(END);
    }
}
