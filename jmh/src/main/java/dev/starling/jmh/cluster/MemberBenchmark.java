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
 * What two members do together, each in a thread of one process, for a look inside with JMH's profilers.
 * {@link ClusterBench} is what compares processes with our peers.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public abstract class MemberBenchmark {
    /** Members begin each invocation together, which is to weigh little. */
    static final int RUNS = 200;

    static final String PEER = "starling-jmh-peer";

    /** How they reach each other. */
    @Param
    Route route;

    private Path directory;
    private Member own;
    private Thread peer;
    private long begun;
    private volatile long asked;
    private volatile boolean isEnding;

    /** Returns what is done. */
    abstract Measure measure();

    /** Returns with how many bytes. */
    abstract int bytes();

    /** Becomes one of two members. */
    abstract Member join(int rank, Path meeting) throws Exception;

    @Setup(Level.Trial)
    public void meet() throws Exception {
        directory = Files.createTempDirectory("starling-jmh-");
        peer = Thread.ofPlatform().daemon().name(PEER).start(this::accompany);
        own = join(0, directory);
    }

    /** Does as often what the benchmark does. */
    private void accompany() {
        try (Member member = join(1, directory)) {
            long done = 0;
            while (true) {
                boolean isLast = isEnding;
                if (asked > done) {
                    member.time(measure(), bytes(), RUNS);
                    done++;
                } else if (isLast) {
                    return;
                } else {
                    member.idle();
                    Thread.onSpinWait();
                }
            }
        } catch (Exception e) {
            throw new IllegalStateException("the peer ended early", e);
        }
    }

    @Benchmark
    @OperationsPerInvocation(RUNS)
    public long run() throws Exception {
        asked = ++begun;
        return own.time(measure(), bytes(), RUNS);
    }

    @TearDown(Level.Trial)
    public void part() throws Exception {
        isEnding = true;
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
