package dev.starling.cuda;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Nvtx;
import dev.starling.cuda.gpu.Waits;
import dev.starling.cuda.kernels.AttentionKernels;
import dev.starling.cuda.kernels.ContractionKernels;
import dev.starling.cuda.kernels.ConvolutionKernels;
import dev.starling.cuda.kernels.CrossEntropyKernels;
import dev.starling.cuda.kernels.HostFallback;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.MovementKernels;
import dev.starling.cuda.kernels.NormalizationKernels;
import dev.starling.cuda.kernels.PoolingKernels;
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
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.IntConsumer;

/**
 * The backend of one GPU. Each family of operations has its kernels in a class of its own. Work is queued and runs in
 * the order of the calls. A kernel's error shows at a later call, a bad index at the thread's next download, unless the
 * property {@code starling.cuda.synchronous} or the environment's {@code CUDA_LAUNCH_BLOCKING=1} makes every operation
 * wait until it is done.
 */
final class CudaBackend implements Backend {
    private final Device device;
    private final Gpu gpu;
    private final boolean synchronous;
    /** {@code null} without NVTX ranges. */
    private final Nvtx nvtx;
    private final DeviceAllocator memory;
    private final Workspaces workspaces;
    /** Write-locked during a capture of the stream, read-locked while work is queued. */
    private final ReentrantReadWriteLock order = new ReentrantReadWriteLock();
    private final KernelCompiler compiler;
    private final Launcher launcher;
    private final Staging staging;
    private final SideCopies copies;
    private final PinnedCopies pinned;
    private final MovementKernels movement;
    private final RandomKernels random;
    private final UpdateKernels update;
    private final ContractionKernels contraction;
    private final RecurrenceKernels recurrence;
    private final ConvolutionKernels convolution;
    private final PoolingKernels pooling;
    private final SortingKernels sorting;
    private final SelectionKernels selection;
    private final ReductionKernels reduction;
    private final ScanKernels scan;
    private final SoftmaxKernels softmax;
    private final AttentionKernels attention;
    private final CrossEntropyKernels crossEntropy;
    private final NormalizationKernels normalization;
    private final HostFallback host = new HostFallback(this);
    private final Libraries libraries;
    /** Opened at the first call of {@link #collectives}. */
    private Optional<DeviceCollectives> collectives;

    CudaBackend(Device device, Gpu gpu, Libraries libraries) {
        this(device, gpu, libraries, new KernelCompiler(gpu.compiler(), gpu.architecture()));
    }

    CudaBackend(Device device, Gpu gpu, Libraries libraries, KernelCompiler compiler) {
        this.device = device;
        this.gpu = gpu;
        this.libraries = libraries;
        synchronous = Boolean.getBoolean("starling.cuda.synchronous")
                || "1".equals(System.getenv("CUDA_LAUNCH_BLOCKING"));
        nvtx = Nvtx.load(System.getProperty("starling.nvtx"));
        this.compiler = compiler;
        launcher = new Launcher(gpu, compiler);
        staging = new Staging(gpu, launcher.stream(), 2);
        copies = new SideCopies(gpu, launcher.stream(), synchronous);
        pinned = new PinnedCopies(gpu, launcher.stream(), synchronous);
        memory = new DeviceAllocator(device.toString(), gpu, copies);
        workspaces = new Workspaces(memory);
        movement = new MovementKernels(launcher);
        random = new RandomKernels(launcher);
        update = new UpdateKernels(launcher);
        reduction = new ReductionKernels(launcher);
        scan = new ScanKernels(launcher);
        softmax = new SoftmaxKernels(launcher);
        attention = new AttentionKernels(launcher, libraries.attender(gpu, launcher.stream(), workspaces));
        crossEntropy = new CrossEntropyKernels(launcher);
        normalization = new NormalizationKernels(launcher);
        contraction = new ContractionKernels(launcher, reduction, libraries.blas(gpu, launcher.stream(), workspaces));
        recurrence = new RecurrenceKernels(launcher, contraction, reduction,
                libraries.recurrer(gpu, launcher.stream(), workspaces));
        convolution = new ConvolutionKernels(launcher, reduction,
                libraries.convolver(gpu, launcher.stream(), workspaces));
        sorting = new SortingKernels(launcher);
        selection = new SelectionKernels(launcher, sorting);
        pooling = new PoolingKernels(launcher);
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
        Lock queueing = beginQueueing(op.name());
        try {
            Tensor[] results = runKernel(op, inputs, outputs);
            waitIfSynchronous();
            return results;
        } catch (GpuException e) {
            throw named(e, op.name(), Arrays.stream(inputs).map(Tensor::spec).toList());
        } finally {
            endQueueing(queueing);
        }
    }

    @Override
    public Chain.Kernel fuse(Chain chain) {
        Chain.Kernel kernel = launcher.elementwise().fuse(chain);
        return kernel == null ? null : operands -> {
            Lock queueing = beginQueueing("fused");
            try {
                Tensor result = kernel.run(operands);
                waitIfSynchronous();
                return result;
            } catch (GpuException e) {
                throw named(e, "fused " + chain.steps().getLast().op().name(), chain.operands());
            } finally {
                endQueueing(queueing);
            }
        };
    }

    @Override
    public boolean convolvesChannelsLast() {
        return convolution.usesLibrary();
    }

    @Override
    public boolean fusesHalves() {
        return true;
    }

    /** Locks out captures and begins a range of the given name; {@link #endQueueing} ends both. */
    private Lock beginQueueing(String work) {
        Lock lock = order.readLock();
        lock.lock();
        if (nvtx != null) {
            nvtx.push(work);
        }
        return lock;
    }

    private void endQueueing(Lock lock) {
        if (nvtx != null) {
            nvtx.pop();
        }
        lock.unlock();
    }

    @Override
    public Recording record(int parts, IntConsumer part) {
        if (synchronous) {
            return null;
        }
        order.writeLock().lock();
        try {
            // No thread begins a copy while this one holds the lock, and the captured stream cannot wait for a copy.
            copies.settle();
            libraries.open();
            workspaces.beginCapture();
            return recorded(StreamRecording.of(launcher, parts, part), workspaces.endCapture());
        } catch (GpuException | TensorException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO,
                    "a program cannot be captured as a CUDA graph and runs operation by operation: {0}",
                    e.getMessage());
            return null;
        } finally {
            try {
                workspaces.endCapture().run();
            } finally {
                order.writeLock().unlock();
            }
        }
    }

    private Recording recorded(StreamRecording recording, Runnable release) {
        return new Recording() {
            @Override
            public void renew(int part) {
                exclusively(() -> recording.renew(part));
            }

            @Override
            public void run() {
                Lock queueing = beginQueueing("program");
                try {
                    recording.run();
                } catch (GpuException e) {
                    throw named(e, "program", List.of());
                } finally {
                    endQueueing(queueing);
                }
            }

            @Override
            public void close() {
                try {
                    exclusively(recording::close);
                } finally {
                    release.run();
                }
            }
        };
    }

    private void exclusively(Runnable body) {
        order.writeLock().lock();
        try {
            body.run();
        } catch (GpuException e) {
            throw named(e, "program", List.of());
        } finally {
            order.writeLock().unlock();
        }
    }

    @Override
    public void updateAll(Update[] ops, Tensor[][] operands, Tensor guard) {
        Lock queueing = beginQueueing(ops[0].name());
        try {
            update.run(ops, operands, guard);
            waitIfSynchronous();
        } catch (GpuException e) {
            throw named(e, ops[0].name(), List.of(operands[0][0].spec()));
        } finally {
            endQueueing(queueing);
        }
    }

    private Tensor[] runKernel(Op op, Tensor[] inputs, Spec[] outputs) {
        return switch (op) {
            case Elementwise e -> launcher.elementwise().run(e, inputs, outputs[0]);
            case Movement m -> movement.run(m, inputs, outputs[0]);
            case Fill f -> launcher.fill().run(f, outputs[0]);
            case Random r -> random.run(r, inputs, outputs[0]);
            case Update u -> update.run(u, inputs);
            case Contraction c -> orHost(contraction.run(c, inputs, outputs), op, inputs, outputs);
            case Convolution c -> orHost(convolution.run(c, inputs, outputs), op, inputs, outputs);
            case Pooling p -> pooling.run(p, inputs, outputs);
            case Selection s -> selection.run(s, inputs, outputs[0]);
            case Sorting s -> sorting.run(s, inputs[0], outputs);
            case Reduction r -> orHost(reduction.run(r, inputs, outputs[0]), op, inputs, outputs);
            case Scan s -> orHost(scan.run(s, inputs, outputs[0]), op, inputs, outputs);
            case Softmax s -> orHost(softmax.run(s, inputs, outputs[0]), op, inputs, outputs);
            case CrossEntropy c -> orHost(crossEntropy.run(c, inputs, outputs), op, inputs, outputs);
            case Attention a -> orHost(attention.run(a, inputs, outputs), op, inputs, outputs);
            case Recurrence r -> orHost(recurrence.run(r, inputs, outputs), op, inputs, outputs);
            case Normalization n -> orHost(normalization.run(n, inputs, outputs), op, inputs, outputs);
            case View _, Transfer _ -> throw new AssertionError("views and transfers reach no backend: " + op.name());
        };
    }

    /** Returns a kernel's results, or computes them on the host if no kernel supports the operands. */
    private Tensor[] orHost(Tensor[] results, Op op, Tensor[] inputs, Spec[] outputs) {
        return results != null ? results : host.run(op, inputs, outputs);
    }

    @Override
    public long reserveBytes(Recurrence.Forward op, Spec... operands) {
        Lock queueing = beginQueueing("reserve");
        try {
            return recurrence.reserveBytes(op, operands);
        } catch (GpuException e) {
            throw named(e, op.name(), List.of(operands));
        } finally {
            endQueueing(queueing);
        }
    }

    @Override
    public synchronized DeviceCollectives collectives() {
        if (collectives == null) {
            collectives = Optional.ofNullable(libraries.collectives(gpu, launcher.stream(), order.readLock()));
        }
        return collectives.orElse(null);
    }

    @Override
    public void upload(long hostAddress, long deviceAddress, long bytes) {
        transfer("upload", () -> staging.upload(hostAddress, deviceAddress, bytes));
    }

    @Override
    public void download(long deviceAddress, long hostAddress, long bytes) {
        transfer("download", () -> {
            staging.download(deviceAddress, hostAddress, bytes);
            if (bytes > 0) {
                launcher.checkIndices();
            }
        });
    }

    private void waitIfSynchronous() {
        if (synchronous) {
            Waits.synchronize(gpu, launcher.stream(), "synchronous mode");
            launcher.checkIndices();
        }
    }

    @Override
    public Uploader uploader() {
        Uploader side = copies.uploader();
        return new Uploader() {
            @Override
            public void lend() {
                queueCopy("lend", side::lend);
            }

            @Override
            public void copy(long hostAddress, long deviceAddress, long bytes) {
                queueCopy("upload", () -> side.copy(hostAddress, deviceAddress, bytes));
            }

            @Override
            public void await() {
                queueCopy("await", side::await);
            }

            @Override
            public void close() {
                queueCopy("close", side::close);
            }
        };
    }

    @Override
    public PinnedMemory pin(long hostAddress, long bytes) {
        PinnedMemory memory;
        try {
            memory = pinned.pin(hostAddress, bytes);
        } catch (GpuException e) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.WARNING, "{0} cannot copy from and to "
                    + "{1} bytes of host memory directly, so the host waits for each copy: {2}; check how "
                    + "much memory this process may lock (ulimit -l, the container''s limits)", device, bytes,
                    e.getMessage());
            return Backend.super.pin(hostAddress, bytes);
        }
        return new PinnedMemory() {
            @Override
            public Part part(long offset, long size) {
                return CudaBackend.this.part(memory.part(offset, size));
            }

            @Override
            public void close() {
                queueCopy("unpin", memory::close);
            }
        };
    }

    private PinnedMemory.Part part(PinnedMemory.Part side) {
        return new PinnedMemory.Part() {
            @Override
            public void download(long deviceAddress) {
                queueCopy("download", () -> side.download(deviceAddress));
            }

            @Override
            public void upload(long deviceAddress) {
                queueCopy("upload", () -> side.upload(deviceAddress));
            }

            @Override
            public boolean isDone() {
                try {
                    return side.isDone();
                } catch (GpuException e) {
                    throw named(e, "copy", List.of());
                }
            }

            @Override
            public void close() {
                queueCopy("close", side::close);
            }
        };
    }

    private void transfer(String name, Runnable copy) {
        queueCopy(name, () -> {
            copy.run();
            waitIfSynchronous();
        });
    }

    /** Queues copies, which a capture cannot record. */
    private void queueCopy(String name, Runnable copy) {
        Lock queueing = beginQueueing(name);
        try {
            if (order.isWriteLockedByCurrentThread()) {
                throw new GpuException("copies through the host cannot be captured in a graph");
            }
            copy.run();
        } catch (GpuException e) {
            throw named(e, name, List.of());
        } finally {
            endQueueing(queueing);
        }
    }

    private TensorException named(GpuException e, String op, List<Spec> operands) {
        TensorException named = e.isExhausted()
                ? new TensorException(TensorException.Problem.MEMORY, op, operands, device + " reports "
                        + e.getMessage() + ", " + memory.shortage(), "close scopes earlier or use smaller batches")
                : new TensorException(TensorException.Problem.DEVICE, op, operands, device + " reports "
                        + e.getMessage(), e.remedy() != null ? e.remedy()
                        : synchronous ? "report it with this message"
                        : "set CUDA_LAUNCH_BLOCKING=1 to find the operation that failed: it may be an earlier one");
        named.initCause(e);
        return named;
    }
}
