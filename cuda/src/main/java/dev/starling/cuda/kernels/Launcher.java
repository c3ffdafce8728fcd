package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.gpu.Gpu;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** A device's kernels and the stream that all of its work is queued on. Safe for use by several threads. */
public final class Launcher {
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final KernelCompiler compiler;
    private final Map<Kernel, Gpu.Function> functions = new ConcurrentHashMap<>();

    /** Makes a launcher whose kernels come from {@code compiler}. */
    public Launcher(Gpu gpu, KernelCompiler compiler) {
        this.gpu = gpu;
        this.compiler = compiler;
        this.stream = gpu.stream();
    }

    /** Returns the device. */
    public Gpu gpu() {
        return gpu;
    }

    /** Returns the stream of the device's work. */
    public Gpu.Stream stream() {
        return stream;
    }

    /** Begins a launch: give it arguments, then run it. It is the thread's own and good for one launch. */
    Launch launch(Kernel kernel) {
        Gpu.Function function = functions.get(kernel);
        if (function == null) {
            function = functions.computeIfAbsent(kernel, k -> compiler.function(k.source()));
        }
        return Launch.of(this, function);
    }

    /** Queues a copy within the device's memory. */
    void copy(long from, long to, long bytes) {
        if (bytes > 0) {
            gpu.copy(from, to, bytes, stream);
        }
    }
}
