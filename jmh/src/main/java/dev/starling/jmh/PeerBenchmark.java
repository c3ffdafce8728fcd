package dev.starling.jmh;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** One workload by Starling and by its peers, for JMH's profilers. {@link Bench} measures ratios. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public abstract class PeerBenchmark {
    /** The engine. */
    @Param({"STARLING", "PYTORCH"})
    Contender contender;

    /** Threads inside one operation. */
    @Param("1")
    int threads;

    private Case prepared;

    /** Returns the workload. */
    protected abstract Workload workload();

    @Setup(Level.Trial)
    public void prepare() {
        Engine engine = contender.start(threads);
        prepared = engine.prepare(workload(), engine.variants(workload()).getFirst());
    }

    @Benchmark
    public void run() {
        prepared.run();
    }

    @TearDown(Level.Trial)
    public void close() {
        prepared.close();
    }
}
