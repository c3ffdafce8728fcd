package dev.starling.cuda;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Nvtx;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.cuda.gpu.Waits;
import dev.starling.cuda.kernels.AttentionKernels;
import dev.starling.cuda.kernels.ContractionKernels;
import dev.starling.cuda.kernels.ConvolutionKernels;
import dev.starling.cuda.kernels.CrossEntropyKernels;
import dev.starling.cuda.kernels.HostFallback;
import dev.starling.cuda.kernels.KernelChain;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.MovementKernels;
import dev.starling.cuda.kernels.NormalizationKernels;
import dev.starling.cuda.kernels.PoolingKernels;
import dev.starling.cuda.kernels.ProductKernels;
import dev.starling.cuda.kernels.Products;
import dev.starling.cuda.kernels.RandomKernels;
import dev.starling.cuda.kernels.RecurrenceKernels;
import dev.starling.cuda.kernels.ReductionKernels;
import dev.starling.cuda.kernels.ScanKernels;
import dev.starling.cuda.kernels.SelectionKernels;
import dev.starling.cuda.kernels.SoftmaxKernels;
import dev.starling.cuda.kernels.SortingKernels;
import dev.starling.cuda.kernels.StreamRecording;
import dev.starling.cuda.kernels.UpdateKernels;
import dev.starling.cuda.memory.DeviceAllocator;
import dev.starling.cuda.memory.PinnedCopies;
import dev.starling.cuda.memory.SideCopies;
import dev.starling.cuda.memory.Staging;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Normalization;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Softmax;
import dev.starling.tensor.op.Sorting;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.Chain;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.PinnedMemory;
import dev.starling.tensor.spi.Recording;
import dev.starling.tensor.spi.Uploader;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The backend of one GPU. Each family of operations has its kernels in a class of its own; those that libraries may
 * compute, or that need temporary memory, form a {@link KernelChain}. Work is queued and runs in the order of the
 * calls. A kernel's error shows at a later call, a bad index at the thread's next download; a synchronous device waits
 * until each operation is done.
 */
final class CudaBackend implements Backend {
    private final Device device;
    private final Gpu gpu;
    private final CudaConfig config;
    private final Submissions submissions;
    private final DeviceAllocator memory;
    private final Workspaces workspaces;
    private final KernelCompiler compiler;
    private final Launcher launcher;
    private final Staging staging;
    private final SideCopies copies;
    private final PinnedCopies pinned;
    private final MovementKernels movement;
    private final UpdateKernels update;
    private final KernelChain<Random> random;
    private final KernelChain<Pooling> pooling;
    private final KernelChain<Sorting> sorting;
    private final KernelChain<Selection> selection;
    private final KernelChain<Contraction> contraction;
    private final KernelChain<Recurrence> recurrence;
    private final KernelChain<Convolution> convolution;
    private final KernelChain<Reduction> reduction;
    private final KernelChain<Scan> scan;
    private final KernelChain<Softmax> softmax;
    private final KernelChain<Attention> attention;
    private final KernelChain<CrossEntropy> crossEntropy;
    private final KernelChain<Normalization> normalization;
    private final Libraries libraries;
    /** Opened at the first call of {@link #collectives}. */
    private @Nullable Optional<DeviceCollectives> collectives;

    CudaBackend(Device device, Gpu gpu, Libraries.Source libraries) {
        this(device, gpu, libraries, CudaConfig.read(), new KernelCompiler(gpu.compiler(), gpu.architecture()));
    }

    CudaBackend(Device device, Gpu gpu, Libraries.Source libraries, CudaConfig config, KernelCompiler compiler) {
        this.device = device;
        this.gpu = gpu;
        this.config = config;
        this.compiler = compiler;
        submissions = new Submissions(device.toString(), config.synchronous(), Nvtx.load(config.nvtx()),
                this::shortage);
        launcher = new Launcher(gpu, compiler);
        staging = new Staging(gpu, launcher.stream(), 2);
        copies = new SideCopies(gpu, launcher.stream(), submissions);
        pinned = new PinnedCopies(gpu, launcher.stream(), submissions);
        memory = new DeviceAllocator(device.toString(), gpu, copies, config.cache());
        workspaces = new Workspaces(memory);
        ReductionKernels sums = new ReductionKernels(launcher);
        this.libraries = libraries.of(launcher, workspaces, sums, config);
        movement = new MovementKernels(launcher);
        update = new UpdateKernels(launcher);
        HostFallback host = new HostFallback(this, launcher);
        random = chain(List.of(), new RandomKernels(launcher), host);
        pooling = chain(List.of(), new PoolingKernels(launcher), host);
        SortingKernels sorts = new SortingKernels(launcher);
        sorting = chain(List.of(), sorts, host);
        selection = chain(List.of(), new SelectionKernels(launcher, sorts), host);
        List<Products> products = Stream.concat(this.libraries.products().stream(),
                Stream.of(new ProductKernels(launcher))).toList();
        contraction = new KernelChain<>(products.stream().map(p -> new ContractionKernels(launcher, sums, p)).toList(),
                host);
        recurrence = chain(this.libraries.recurrence(), new RecurrenceKernels(launcher, products, sums), host);
        convolution = chain(this.libraries.convolution(), new ConvolutionKernels(launcher, sums), host);
        attention = chain(this.libraries.attention(), new AttentionKernels(launcher), host);
        reduction = chain(List.of(), sums, host);
        scan = chain(List.of(), new ScanKernels(launcher), host);
        softmax = chain(List.of(), new SoftmaxKernels(launcher), host);
        crossEntropy = chain(List.of(), new CrossEntropyKernels(launcher), host);
        normalization = chain(List.of(), new NormalizationKernels(launcher), host);
    }

    private static <O extends Op> KernelChain<O> chain(List<? extends Kernels<O>> libraries, Kernels<O> own,
            HostFallback host) {
        return new KernelChain<>(Stream.<Kernels<O>>concat(libraries.stream(), Stream.of(own)).toList(), host);
    }

    private String shortage() {
        return memory.shortage();
    }

    Gpu gpu() {
        return gpu;
    }

    KernelCompiler compiler() {
        return compiler;
    }

    @Override
    public Allocator memory() {
        return memory;
    }

    @Override
    public boolean hostVisible() {
        return false;
    }

    @Override
    public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
        return submissions.queue(op.name(), op.name(), () -> Arrays.stream(inputs).map(Tensor::spec).toList(),
                () -> waited(runKernel(op, inputs, outputs)));
    }

    @Override
    public Chain.@Nullable Kernel fuse(Chain chain) {
        Chain.Kernel kernel = launcher.elementwise().fuse(chain);
        return kernel == null ? null : operands -> submissions.queue("fused",
                "fused " + chain.steps().getLast().op().name(), chain::operands, () -> waited(kernel.run(operands)));
    }

    @Override
    public boolean convolvesChannelsLast() {
        return !libraries.convolution().isEmpty();
    }

    @Override
    public boolean fusesHalves() {
        return true;
    }

    @Override
    public @Nullable Recording record(int parts, IntConsumer part) {
        return config.synchronous() ? null : submissions.exclusively("capture", () -> capture(parts, part));
    }

    private @Nullable Recording capture(int parts, IntConsumer part) {
        try {
            // No thread begins a copy meanwhile, and the captured stream cannot wait for a copy.
            copies.settle();
            libraries.open().run();
            workspaces.beginCapture();
            StreamRecording recording = StreamRecording.of(launcher, submissions, parts, part);
            recording.onClose(workspaces.endCapture());
            return recording;
        } catch (GpuException | TensorException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO,
                    "a program cannot be captured as a CUDA graph and runs operation by operation: {0}",
                    e.getMessage());
            return null;
        } finally {
            workspaces.endCapture().run();
        }
    }

    @Override
    public void updateAll(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        submissions.queue(ops[0].name(), ops[0].name(), () -> List.of(operands[0][0].spec()), () -> {
            update.run(ops, operands, guard);
            waitIfSynchronous();
            return ops;
        });
    }

    private Tensor[] runKernel(Op op, Tensor[] inputs, Spec[] outputs) {
        return switch (op) {
            case Elementwise e -> launcher.elementwise().run(e, inputs, outputs[0]);
            case Movement m -> movement.run(m, inputs, outputs[0]);
            case Fill f -> launcher.fill().run(f, outputs[0]);
            case Random r -> random.run(r, inputs, outputs);
            case Update u -> update.run(u, inputs);
            case Pooling p -> pooling.run(p, inputs, outputs);
            case Selection s -> selection.run(s, inputs, outputs);
            case Sorting s -> sorting.run(s, inputs, outputs);
            case Contraction c -> contraction.run(c, inputs, outputs);
            case Convolution c -> convolution.run(c, inputs, outputs);
            case Reduction r -> reduction.run(r, inputs, outputs);
            case Scan s -> scan.run(s, inputs, outputs);
            case Softmax s -> softmax.run(s, inputs, outputs);
            case CrossEntropy c -> crossEntropy.run(c, inputs, outputs);
            case Attention a -> attention.run(a, inputs, outputs);
            case Recurrence r -> recurrence.run(r, inputs, outputs);
            case Normalization n -> normalization.run(n, inputs, outputs);
            case View _, Transfer _ -> throw new AssertionError("views and transfers reach no backend: " + op.name());
        };
    }

    private <T> T waited(T result) {
        waitIfSynchronous();
        return result;
    }

    private void waitIfSynchronous() {
        if (config.synchronous()) {
            Waits.synchronize(gpu, launcher.stream(), "synchronous mode");
            launcher.checkIndices();
        }
    }

    @Override
    public long reserveBytes(Recurrence.Forward op, Spec... operands) {
        return submissions.queue("reserve", op.name(), () -> List.of(operands), () -> libraries.recurrence().stream()
                .mapToLong(library -> library.reserveBytes(op, operands)).findFirst().orElse(0));
    }

    @Override
    public synchronized @Nullable DeviceCollectives collectives() {
        Optional<DeviceCollectives> opened = collectives != null ? collectives
                : Optional.ofNullable(libraries.collectives().apply(submissions));
        collectives = opened;
        return opened.orElse(null);
    }

    @Override
    public void upload(long hostAddress, long deviceAddress, long bytes) {
        submissions.queueCopy("upload", () -> {
            staging.upload(hostAddress, deviceAddress, bytes);
            waitIfSynchronous();
        });
    }

    @Override
    public void download(long deviceAddress, long hostAddress, long bytes) {
        submissions.queueCopy("download", () -> {
            staging.download(deviceAddress, hostAddress, bytes);
            if (bytes > 0) {
                launcher.checkIndices();
            }
            waitIfSynchronous();
        });
    }

    @Override
    public Uploader uploader() {
        return copies.uploader();
    }

    @Override
    public PinnedMemory pin(long hostAddress, long bytes) {
        try {
            return pinned.pin(hostAddress, bytes);
        } catch (GpuException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.WARNING, "{0} cannot copy from and to "
                    + "{1} bytes of host memory directly, so the host waits for each copy: {2}; check how "
                    + "much memory this process may lock (ulimit -l, the container''s limits)", device, bytes,
                    e.getMessage());
            return Backend.super.pin(hostAddress, bytes);
        }
    }
}
