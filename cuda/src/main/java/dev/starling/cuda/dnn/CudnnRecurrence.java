package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_WGRAD_MODE_ADD;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardData_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardWeights_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNForward;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.memory.LruMap;
import dev.starling.tensor.DType;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Recurrent layers by NVIDIA's cuDNN 9, by its deterministic algorithms. The library expects all weights in one piece
 * of memory, so each call copies them there, and their gradients back from such a piece. Its backward pass overwrites
 * the reserve of the forward pass; it gets a copy, since a gradient may be computed twice. f32 is multiplied in full
 * precision unless the property {@code starling.cuda.tf32} is true; 16-bit types accumulate in f32.
 */
public final class CudnnRecurrence implements RecurrenceLibrary {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final IntPointer NO_LENGTHS = null;
    private static final String FALLBACK = "Starling's own kernels run recurrent layers";
    private static final int MAX_CALLS = 1024;

    private final Cudnn cudnn;
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Allocator memory;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final LruMap<Call, State> states = new LruMap<>(MAX_CALLS, s -> s.plans.size() == s.planned);
    private final RawPointer[] pointers = new RawPointer[14];
    private boolean loggedRefusal;

    /** Makes a wrapper; the library is opened at its first use. */
    public CudnnRecurrence(Cudnn cudnn) {
        this.cudnn = cudnn;
        gpu = cudnn.gpu();
        stream = cudnn.stream();
        memory = cudnn.memory();
        for (int i = 0; i < pointers.length; i++) {
            pointers[i] = new RawPointer();
        }
    }

    /** The state of a call. A refusal is never forgotten. */
    private static final class State {
        /** The usable plans, fastest first; empty if Starling's own kernels compute the call. */
        private final Deque<RecurrencePlan> plans;
        private final int planned;
        private final long reserveBytes;
        private boolean proven;

        State(Deque<RecurrencePlan> plans) {
            this.plans = plans;
            planned = plans.size();
            reserveBytes = plans.stream().mapToLong(RecurrencePlan::reserveBytes).max().orElse(0);
        }

        /**
         * Removes the first plan. Once a plan has succeeded, removes all: no other plan may read the reserve that it
         * wrote.
         */
        void refuse() {
            if (proven) {
                plans.clear();
            } else {
                plans.removeFirst();
            }
        }
    }

    /** Workspace for one call; the next use of its blocks is queued behind the call. */
    private final class Workspace implements AutoCloseable {
        private final List<Block> blocks = new ArrayList<>(4);

        /** Returns the address of memory, 0 for none. */
        long memory(long bytes) {
            if (bytes == 0) {
                return 0;
            }
            blocks.add(memory.allocate(bytes));
            return blocks.getLast().address();
        }

        @Override
        public void close() {
            blocks.forEach(memory::free);
        }
    }

    @Override
    public boolean supports(DType type) {
        return type.isFloating() && cudnn.isOpen(FALLBACK)
                && !cudnn.isFaulty(new LibraryQuery.Recurrence(type), FALLBACK);
    }

    @Override
    public long reserveBytes(Call call) {
        synchronized (cudnn) {
            return state(call).reserveBytes;
        }
    }

    @Override
    public boolean forward(Call call, Operands operands, Results results, long reserve) {
        synchronized (cudnn) {
            return runLocked(call, operands, results, reserve);
        }
    }

    private boolean runLocked(Call call, Operands operands, Results results, long reserve) {
        State state = state(call);
        while (!state.plans.isEmpty()) {
            if (isComputed(call, run(state.plans.getFirst(), operands, results, reserve))) {
                state.proven = true;
                return true;
            }
            state.refuse();
        }
        return false;
    }

    @Override
    public boolean backward(Call call, Operands operands, long y, long reserve, Results incoming,
            Operands gradients) {
        synchronized (cudnn) {
            return runBackward(call, operands, y, reserve, incoming, gradients);
        }
    }

    private boolean runBackward(Call call, Operands operands, long y, long reserve, Results incoming,
            Operands gradients) {
        State state = state(call);
        if (state.plans.isEmpty() || !state.proven) {
            return false;
        }
        if (isComputed(call, backward(state.plans.getFirst(), operands, y, reserve, incoming, gradients))) {
            return true;
        }
        state.refuse();
        return false;
    }

    private State state(Call call) {
        State state = states.get(call);
        if (state == null) {
            state = new State(plans(call));
            states.put(call, state);
            states.evict().forEach(evicted -> evicted.plans.forEach(RecurrencePlan::destroy));
        }
        return state;
    }

    private Deque<RecurrencePlan> plans(Call call) {
        Deque<RecurrencePlan> plans = new ArrayDeque<>();
        for (int algorithm : RecurrencePlan.algorithms(call)) {
            try {
                gpu.enter();
                plans.add(RecurrencePlan.of(cudnn.handle(), call, algorithm, tf32));
            } catch (GpuException e) {
                logRefusal(call + " by algorithm " + algorithm, e);
            }
        }
        return plans;
    }

    /** Returns whether the library computed a call, not refused it. */
    private boolean isComputed(Call call, int status) {
        if (CudnnException.isRefusal(status)) {
            logRefusal(call + " (" + CudnnException.describe("a recurrent layer", status) + ")", null);
            return false;
        }
        Descriptor.check(status, "a recurrent layer");
        return true;
    }

    private void logRefusal(String what, GpuException cause) {
        LOG.log(loggedRefusal ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING, "cuDNN does not support "
                + what + ": another algorithm or Starling's own kernel computes it from now on"
                + (loggedRefusal ? "" : ". Further cases are logged at level DEBUG"), cause);
        loggedRefusal = true;
    }

    private int run(RecurrencePlan plan, Operands o, Results r, long reserve) {
        try (Workspace workspace = new Workspace()) {
            long weights = workspace.memory(plan.weightBytes());
            long work = workspace.memory(plan.workspaceBytes());
            gather(plan, o, weights);
            gpu.enter();
            return cudnnRNNForward(cudnn.handle(), plan.layer(), plan.mode(), NO_LENGTHS, plan.x(), pointer(0, o.x()),
                    plan.y(), pointer(1, r.y()), plan.state(), pointer(2, o.h()), pointer(3, r.h()), plan.state(),
                    pointer(4, o.c()), pointer(5, r.c()), plan.weightBytes(), pointer(6, weights),
                    plan.workspaceBytes(), pointer(7, work), plan.reserveBytes(), pointer(8, reserve));
        }
    }

    private int backward(RecurrencePlan plan, Operands o, long y, long kept, Results d, Operands to) {
        try (Workspace workspace = new Workspace()) {
            long weights = workspace.memory(plan.weightBytes());
            long slopes = workspace.memory(plan.weightBytes());
            long work = workspace.memory(plan.workspaceBytes());
            long reserve = workspace.memory(plan.reserveBytes());
            gpu.copy(kept, reserve, plan.reserveBytes(), stream);
            gather(plan, o, weights);
            gpu.enter();
            int status = cudnnRNNBackwardData_v8(cudnn.handle(), plan.layer(), NO_LENGTHS, plan.y(), pointer(0, y),
                    pointer(1, d.y()), plan.x(), pointer(2, to.x()), plan.state(), pointer(3, o.h()),
                    pointer(4, d.h()), pointer(5, to.h()), plan.state(), pointer(6, o.c()), pointer(7, d.c()),
                    pointer(8, to.c()), plan.weightBytes(), pointer(9, weights), plan.workspaceBytes(),
                    pointer(10, work), plan.reserveBytes(), pointer(11, reserve));
            if (status != CUDNN_STATUS_SUCCESS) {
                return status;
            }
            // The library adds to what the memory contains.
            gpu.fill(slopes, (byte) 0, plan.weightBytes(), stream);
            gpu.enter();
            status = cudnnRNNBackwardWeights_v8(cudnn.handle(), plan.layer(), CUDNN_WGRAD_MODE_ADD, NO_LENGTHS,
                    plan.x(), pointer(12, o.x()), plan.state(), pointer(3, o.h()), plan.y(), pointer(0, y),
                    plan.weightBytes(), pointer(13, slopes), plan.workspaceBytes(), pointer(10, work),
                    plan.reserveBytes(), pointer(11, reserve));
            if (status == CUDNN_STATUS_SUCCESS) {
                long[] parts = weights(to);
                for (RecurrencePlan.Part p : plan.parts(slopes)) {
                    gpu.copy(slopes + p.to(), parts[p.operand()] + p.from(), p.bytes(), stream);
                }
            }
            return status;
        }
    }

    /** Copies the weights to where the library expects them; gaps between them are zeroed. */
    private void gather(RecurrencePlan plan, Operands o, long space) {
        gpu.enter();
        List<RecurrencePlan.Part> parts = plan.parts(space);
        if (parts.stream().mapToLong(RecurrencePlan.Part::bytes).sum() < plan.weightBytes()) {
            gpu.fill(space, (byte) 0, plan.weightBytes(), stream);
        }
        long[] from = weights(o);
        for (RecurrencePlan.Part p : parts) {
            gpu.copy(from[p.operand()] + p.from(), space + p.to(), p.bytes(), stream);
        }
    }

    /** Returns the addresses in the order of {@link RecurrencePlan.Part#operand}. */
    private static long[] weights(Operands o) {
        return new long[] {o.weight(), o.recurrentWeight(), o.bias(), o.recurrentBias()};
    }

    private Pointer pointer(int i, long address) {
        return pointers[i].to(address);
    }
}
