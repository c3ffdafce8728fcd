package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_FWD_MODE_INFERENCE;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNForward;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.tensor.DType;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.bytedeco.cuda.cudnn.cudnnContext;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Recurrent layers by NVIDIA's cuDNN 9, by its standard algorithm, which gives the same bits every time. It takes all
 * weights in one piece of memory, into which they are copied for each call. f32 is multiplied in full precision unless
 * the property {@code starling.cuda.tf32} is true; 16-bit types sum in f32.
 */
public final class CudnnRecurrer implements Recurrer {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Allocator memory;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final cudnnContext handle = new cudnnContext();
    /** Empty for what the library refused. */
    private final Map<Call, Optional<RecurrencePlan>> plans = new HashMap<>();
    private final RawPointer[] pointers = new RawPointer[8];

    private CudnnRecurrer(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
        for (int i = 0; i < pointers.length; i++) {
            pointers[i] = new RawPointer();
        }
        gpu.enter();
        Descriptor.check(cudnnCreate(handle), "cudnnCreate");
        Descriptor.check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static Recurrer open(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        try {
            return new CudnnRecurrer(gpu, stream, memory);
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN does not load, kernels of our own run recurrent layers", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type.isFloating();
    }

    @Override
    public synchronized boolean forward(Call call, Operands operands, long y, long lastH, long lastC) {
        gpu.enter();
        Optional<RecurrencePlan> plan = plans.get(call);
        if (plan == null) {
            plan = plan(call);
            plans.put(call, plan);
        }
        if (plan.isEmpty()) {
            return false;
        }
        int status = run(plan.get(), operands, y, lastH, lastC);
        if (status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses {0}, status {1}: kernels of our own compute it from "
                    + "now on", call, status);
            plans.put(call, Optional.empty());
            return false;
        }
        Descriptor.check(status, "cudnnRNNForward");
        return true;
    }

    private Optional<RecurrencePlan> plan(Call call) {
        try {
            return Optional.of(RecurrencePlan.of(handle, call, tf32));
        } catch (GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses " + call + ", kernels of our own compute it", e);
            return Optional.empty();
        }
    }

    private int run(RecurrencePlan plan, Operands o, long y, long lastH, long lastC) {
        // What the blocks are lent for next is queued behind this.
        Block weights = memory.allocate(plan.weightBytes());
        Block space = null;
        try {
            space = plan.workspaceBytes() == 0 ? null : memory.allocate(plan.workspaceBytes());
            long[] from = {o.weight(), o.recurrentWeight(), o.bias(), o.recurrentBias()};
            for (RecurrencePlan.Part p : plan.parts(weights.address())) {
                gpu.copy(from[p.operand()] + p.from(), weights.address() + p.to(), p.bytes(), stream);
            }
            Pointer work = pointer(7, space == null ? 0 : space.address());
            return cudnnRNNForward(handle, plan.layer(), CUDNN_FWD_MODE_INFERENCE, (IntPointer) null, plan.x(),
                    pointer(0, o.x()), plan.y(), pointer(1, y), plan.state(), pointer(2, o.h()), pointer(3, lastH),
                    plan.state(), pointer(4, o.c()), pointer(5, lastC), plan.weightBytes(),
                    pointer(6, weights.address()), plan.workspaceBytes(), work, 0, null);
        } finally {
            memory.free(weights);
            if (space != null) {
                memory.free(space);
            }
        }
    }

    private Pointer pointer(int i, long address) {
        return pointers[i].to(address);
    }
}
