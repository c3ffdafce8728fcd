package dev.starling.jmh.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * An operation of two members, each in a thread of one process, for JMH's profilers. {@link ClusterBench} compares
 * processes with peers.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public abstract class MemberBenchmark {
    /** Runs of each invocation. Members wait for each other before an invocation, so there are many. */
    static final int RUNS = 200;

    static final String PEER = "starling-jmh-peer";

    /** The connection of the members. */
    @Param
    Route route;

    private Path directory;
    private Member own;
    private Thread peer;
    private long begun;
    private volatile long requested;
    private volatile boolean ending;

    /** Returns the operation. */
    abstract Measure measure();

    /** Returns the size of a message. */
    abstract int bytes();

    /** Joins as one of two members. */
    Member join(int rank, Path directory) throws Exception {
        return new TransportMember(route.config(), rank, directory);
    }

    @Setup(Level.Trial)
    public void connect() throws Exception {
        directory = Files.createTempDirectory("starling-jmh-");
        peer = Thread.ofPlatform().daemon().name(PEER).start(this::runPeer);
        own = join(0, directory);
    }

    /** Runs the peer's side of every invocation. */
    private void runPeer() {
        try (Member member = join(1, directory)) {
            long done = 0;
            while (true) {
                boolean last = ending;
                if (requested > done) {
                    member.time(measure(), bytes(), RUNS);
                    done++;
                } else if (last) {
                    return;
                } else {
                    member.idle();
                    Thread.onSpinWait();
                }
            }
        } catch (Exception e) {
            throw new IllegalStateException("the peer failed", e);
        }
    }

    @Benchmark
    @OperationsPerInvocation(RUNS)
    public long run() throws Exception {
        requested = ++begun;
        return own.time(measure(), bytes(), RUNS);
    }

    @TearDown(Level.Trial)
    public void disconnect() throws Exception {
        ending = true;
        peer.join();
        own.close();
        try (Stream<Path> files = Files.walk(directory)) {
            List<Path> all = files.sorted(Comparator.reverseOrder()).toList();
            for (Path file : all) {
                Files.delete(file);
            }
        }
    }
}
