package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** A device's kernels and the stream that all of its work is queued on. Safe for use by several threads. */
public final class Launcher {
    private static final double[] NO_PARAMETERS = {};
    /** Libraries read vectors of this size. */
    private static final int ALIGNMENT = 16;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final KernelCompiler compiler;
    private final Map<String, Gpu.Image> images = new ConcurrentHashMap<>();
    private final Map<Kernel, Gpu.Function> functions = new ConcurrentHashMap<>();
    private final ElementwiseKernels elementwise = new ElementwiseKernels(this);
    private final Faults faults;
    private final FillKernels fill = new FillKernels(this);
    /** Intercepts launches during a capture or a renewal, while no other thread may launch; else {@code null}. */
    private volatile @Nullable StreamRecording recording;

    /** Makes a launcher whose kernels come from {@code compiler}. */
    public Launcher(Gpu gpu, KernelCompiler compiler) {
        this.gpu = gpu;
        this.compiler = compiler;
        this.stream = gpu.stream();
        this.faults = new Faults(gpu, stream);
    }

    /** Returns the device. */
    public Gpu gpu() {
        return gpu;
    }

    /** Returns the stream of the device's work. */
    public Gpu.Stream stream() {
        return stream;
    }

    /** Starts a launch, for the caller to add arguments and run. It belongs to the thread and serves one launch. */
    Launch launch(Kernel kernel) {
        Gpu.Function function = functions.get(kernel);
        if (function == null) {
            function = functions.computeIfAbsent(kernel, k -> load(k.source()));
        }
        return Launch.of(this, function);
    }

    /**
     * Throws if a kernel of this thread has met an index out of range, as an error of its operation. To be called when
     * the device has done all work that this thread queued.
     */
    public void checkIndices() {
        faults.check();
    }

    /** Returns the records of indices out of range, for a kernel. A recording of the kernel is bound to its thread. */
    Faults faults() {
        StreamRecording r = recording;
        if (r != null) {
            r.bind();
        }
        return faults;
    }

    /** Queues a kernel, or passes its arguments to a captured kernel. */
    void queue(Gpu.Function function, Gpu.Grid grid, long arguments, int bytes) {
        StreamRecording r = recording;
        if (r == null || !r.replaces(arguments, bytes)) {
            gpu.launch(function, grid, stream, arguments, bytes);
        }
    }

    /** Sets the recording that intercepts launches, or {@code null} for none. */
    void record(@Nullable StreamRecording next) {
        recording = next;
    }

    private Gpu.Function load(KernelSource source) {
        return images.computeIfAbsent(source.text(), text -> gpu.load(compiler.compile(source)))
                .function(source.function());
    }

    /**
     * Copies {@code x}, which broadcasts to the shape of {@code y}, to {@code y}, and converts it to the type of {@code
     * y}.
     */
    public void assign(Tensor y, Tensor x) {
        if (y.count() > 0 && !Transposition.run(this, y, x)) {
            // 16-bit elements are copied as bits: widening and narrowing would cost time, and change the bits of NaN.
            boolean bits = x.dtype() == y.dtype() && x.dtype().bytes() == 2;
            elementwise.apply(bits ? "a_" : "a", NO_PARAMETERS, y, x);
        }
    }

    /** Returns the tensor itself if its elements lie in row-major order, else a copy. */
    public Tensor dense(Tensor x) {
        return x.isContiguous() ? x : copied(x);
    }

    /** Returns the tensor itself if it is row-major, at an address that libraries read vectors from, else a copy. */
    public Tensor aligned(Tensor x) {
        return x.isContiguous() && x.address() % ALIGNMENT == 0 ? x : copied(x);
    }

    /** Returns the tensor itself if it is channels last and aligned for libraries, else a copy. */
    public Tensor channelsLast(Tensor x) {
        if (ChannelsLast.holds(x) && x.address() % ALIGNMENT == 0) {
            return x;
        }
        Tensor y = Storage.allocate(x.spec(), ChannelsLast.strides(x.shape()));
        assign(y, x);
        return y;
    }

    /** Returns a row-major copy. */
    public Tensor copied(Tensor x) {
        Tensor y = Storage.allocate(x.spec());
        assign(y, x);
        return y;
    }

    /** Sets every element of a dense tensor to a value. */
    public void fill(Tensor y, double value) {
        fill.fill(y, value);
    }

    /** Returns the fill kernels. */
    public FillKernels fill() {
        return fill;
    }

    /** Returns the elementwise kernels. */
    public ElementwiseKernels elementwise() {
        return elementwise;
    }

    /** Queues a copy within the device's memory. */
    void copy(long from, long to, long bytes) {
        if (bytes > 0) {
            gpu.copy(from, to, bytes, stream);
        }
    }
}
