package dev.starling.distributed.hostile;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.network.Program;
import dev.starling.transport.Secret;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramSocket;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A ring of two processes that trains without shared memory, and a third process without the secret that attacks all
 * of their ports. An attack is measured beside a rest and beside the same load on a port on which nothing happens: what
 * the stranger's own work takes from the ring on a machine that they share is no fault of the ring.
 */
final class AttackedRing implements AutoCloseable {
    private static final long START_S = 60;
    private static final long ANSWER_S = 60;
    private static final int WORLD = 2;
    private static final int BACKLOG = 4096;

    private final String provider;
    private final Path directory;
    private final List<Program> ranks = new ArrayList<>();
    private final Program stranger;
    private final List<Integer> ports;
    private final Map<String, Row> rows = new TreeMap<>();
    private final List<ProcessUsage> before = new ArrayList<>();
    private final String expected;
    private long maxResident;
    private long maxShared;
    private int maxFiles;
    private int marks;

    /** The steps per second of the ring beside and under one attack. */
    private record Row(List<Double> rest, List<Double> attacked, List<Double> control) {
        Row() {
            this(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        }
    }

    /**
     * Starts the ring and lets it train once undisturbed.
     *
     * @param flags of the JVM of each rank
     * @param term length of Aeron's terms in bytes
     */
    AttackedRing(String provider, List<String> flags, int term, long seed) throws Exception {
        this.provider = provider;
        Path memory = Path.of("/dev/shm");
        directory = Files.isWritable(memory) ? Files.createTempDirectory(memory, "starling-stranger")
                : Files.createTempDirectory("starling-stranger");
        Program attacker = null;
        try {
            String secret = Secret.random().toHex();
            List<Integer> listening = freePorts(WORLD + 1);
            for (int rank = 0; rank < WORLD; rank++) {
                ranks.add(Program.start("rank " + rank, List.of(), flags, RingProgram.class, List.of(
                        "provider=" + provider,
                        "secret=" + secret, "port=" + listening.get(rank), "coordinator=" + listening.get(WORLD),
                        "rank=" + rank, "directory=" + directory, "term=" + term)));
            }
            for (Program each : ranks) {
                each.await("joined", START_S);
            }
            Path recorded = directory.resolve("recorded");
            Recording.write(Recording.of(RingProgram.transport(provider, secret, 0, directory.toString(),
                    Integer.toString(term)),
                    listening.stream().map(port -> "127.0.0.1:" + port).toList()), recorded);
            attacker = Program.start("stranger", List.of(), Stranger.class,
                    List.of(provider, Long.toString(seed), recorded.toString(), Integer.toString(term)));
            attacker.await("ready", START_S);
            expected = ranks.getFirst().await("round 0", ANSWER_S);
            TreeSet<Integer> all = new TreeSet<>(listening);
            if (provider.equals("aeron")) {
                ranks.forEach(each -> all.addAll(ProcessUsage.datagramPorts(each.pid())));
            }
            ports = List.copyOf(all);
        } catch (Exception | Error e) {
            ranks.forEach(Program::close);
            if (attacker != null) {
                attacker.close();
            }
            delete();
            throw e;
        }
        stranger = attacker;
        ranks.forEach(each -> before.add(ProcessUsage.of(each.pid())));
    }

    private static List<Integer> freePorts(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        try {
            while (sockets.size() < count) {
                ServerSocket socket = new ServerSocket(0);
                try (DatagramSocket too = new DatagramSocket(socket.getLocalPort())) {
                    assertThat(too.isBound()).isTrue();
                }
                sockets.add(socket);
            }
            return sockets.stream().map(ServerSocket::getLocalPort).toList();
        } finally {
            for (ServerSocket each : sockets) {
                each.close();
            }
        }
    }

    private String targets() {
        return ports.stream().map(String::valueOf).collect(Collectors.joining(" "));
    }

    /** Attacks in one way until the stranger has struck a number of times. */
    void attack(String kind, long rate, long count) throws Exception {
        stranger.send(kind + ' ' + rate + ' ' + count + ' ' + targets());
        stranger.await("enough " + kind, ANSWER_S);
        note();
    }

    /** Attacks in one way for a time. */
    void warmUp(String kind, long rate, long windowMs) throws Exception {
        stepsPerSecond(kind + ' ' + rate + " 0 " + targets(), windowMs);
        stepsPerSecond("REST", windowMs / 10);
    }

    /** Attacks in one way, beside a rest and beside the same load elsewhere. */
    void measure(String kind, long rate, long windowMs) throws Exception {
        Row row = rows.computeIfAbsent(kind, _ -> new Row());
        row.rest.add(stepsPerSecond("REST", windowMs));
        row.attacked.add(stepsPerSecond(kind + ' ' + rate + " 0 " + targets(), windowMs));
        row.rest.add(stepsPerSecond("REST", windowMs));
        // Bound and never read: the kernel does for it what it does for a member, and no member does anything.
        try (ServerSocket connections = new ServerSocket(0, BACKLOG); DatagramSocket datagrams = new DatagramSocket()) {
            row.control.add(stepsPerSecond(kind + ' ' + rate + " 0 " + (provider.equals("tcp")
                    ? connections.getLocalPort() : datagrams.getLocalPort()), windowMs));
        }
        System.out.printf("%-10s %8.1f %8.1f %8.1f %8.1f  %d MB%n", kind, row.rest.get(row.rest.size() - 2),
                row.attacked.getLast(), row.rest.getLast(), row.control.getLast(), maxResident >> 20);
    }

    private double stepsPerSecond(String order, long windowMs) throws Exception {
        stranger.send(order);
        long[] begin = mark();
        Thread.sleep(windowMs);
        long[] end = mark();
        note();
        assertThat(stranger.isAlive()).as(() -> "the stranger:\n" + stranger.all()).isTrue();
        return (end[0] - begin[0]) * 1e9 / (end[1] - begin[1]);
    }

    private long[] mark() throws Exception {
        String mark = "mark " + marks++;
        ranks.getFirst().send(mark);
        String[] words = ranks.getFirst().await(mark + ' ', ANSWER_S).split(" ");
        return new long[] {Long.parseLong(words[0]), Long.parseLong(words[1])};
    }

    private void note() {
        for (Program each : ranks) {
            ProcessUsage usage = ProcessUsage.of(each.pid());
            maxResident = Math.max(maxResident, usage.residentBytes());
            maxFiles = Math.max(maxFiles, usage.files());
        }
        maxShared = Math.max(maxShared, ProcessUsage.bytes(directory));
    }

    /** Ends the run; checks that both ranks computed what they compute undisturbed, and that attacks reached them. */
    void finish() throws Exception {
        stranger.send("END");
        stranger.awaitEnd(ANSWER_S);
        assertThat(stranger.all().lines()).as("what the stranger received").noneMatch(l -> l.startsWith("leak"));
        // The training that the attacks have disturbed last, and the next one.
        long last = rounds(ranks.getFirst()).size();
        for (Program each : ranks) {
            each.await("round " + (last + 1), ANSWER_S);
        }
        ranks.forEach(each -> each.send("stop"));
        for (Program each : ranks) {
            each.await("done", ANSWER_S);
            each.awaitEnd(ANSWER_S);
            assertThat(rounds(each)).hasSizeGreaterThan(1).containsOnly(expected);
            assertThat(each.all()).contains("refused");
        }
        assertThat(Long.parseLong(ranks.getFirst().await("refused", 1))).as("frames that the coordinator refused")
                .isPositive();
    }

    /** Returns the weights after each training of a rank. */
    private static List<String> rounds(Program rank) {
        return rank.all().lines().filter(line -> line.startsWith("round ")).map(line -> line.split(" ")[2]).toList();
    }

    /** Returns the most that the resident memory of a rank has grown, in bytes. */
    long residentGrowth() {
        return maxResident - before.stream().mapToLong(ProcessUsage::residentBytes).min().orElseThrow();
    }

    /** Returns the most open files and sockets of a rank. */
    int maxFiles() {
        return maxFiles;
    }

    /** Returns the lowest throughput of all attacks: the median under it, divided by that beside it. */
    double lowest() {
        return rows.values().stream().mapToDouble(row -> median(row.attacked) / median(row.rest)).min().orElse(1);
    }

    /** Returns the lowest throughput of all attacks, beside that under the same load elsewhere. */
    double lowestBesideControl() {
        return rows.values().stream().mapToDouble(row -> median(row.attacked)
                / Math.min(median(row.rest), median(row.control))).min().orElse(1);
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.isEmpty() ? Double.NaN : (sorted.get(middle) + sorted.get(sorted.size() - 1 - middle)) / 2;
    }

    /** Returns what was measured, as a table. */
    String table() {
        Map<String, long[]> struck = new TreeMap<>();
        stranger.all().lines().filter(line -> line.startsWith("struck ")).map(line -> line.split(" "))
                .forEach(words -> struck.computeIfAbsent(words[1], _ -> new long[1])[0] += Long.parseLong(words[2]));
        StringBuilder text = new StringBuilder(provider + ": steps/s (medians) at rest, attacked, with the same load"
                + " elsewhere; the last two as ratios to rest; number of connections or datagrams, of both loads\n");
        struck.forEach((kind, number) -> {
            Row row = rows.getOrDefault(kind, new Row());
            text.append(String.format("%-10s %8.1f %8.1f %8.1f   %.2f %.2f  %9d%n", kind, median(row.rest),
                    median(row.attacked), median(row.control), median(row.attacked) / median(row.rest),
                    median(row.control) / median(row.rest), number[0]));
        });
        return text.append(String.format("resident at most %d MB, %d MB more than before; %d files (%d before); "
                + "%d MB in the directory of all%n", maxResident >> 20, residentGrowth() >> 20, maxFiles,
                before.stream().mapToInt(ProcessUsage::files).max().orElseThrow(), maxShared >> 20)).toString();
    }

    /** Returns the output of all processes, for a report. */
    String output() {
        return ranks.stream().map(Program::all).collect(Collectors.joining("\n--\n")) + "\n--\n" + stranger.all();
    }

    private void delete() {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(each);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        stranger.close();
        ranks.forEach(Program::close);
        delete();
    }
}
