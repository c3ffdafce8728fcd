package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_WGRAD_MODE_ADD;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardData_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardWeights_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNForward;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.known.Asked;
import dev.starling.cuda.memory.LastUsed;
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
 * Recurrent layers by NVIDIA's cuDNN 9, by algorithms that give the same bits every time. It takes all weights in one
 * piece of memory, into which they are copied for each call, and gives their gradients likewise. On the way back it
 * writes into what it kept: that is done in a copy, since a gradient may be asked for twice. f32 is multiplied in full
 * precision unless the property {@code starling.cuda.tf32} is true; 16-bit types sum in f32.
 */
public final class CudnnRecurrer implements Recurrer {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final IntPointer NO_LENGTHS = null;
    private static final String INSTEAD = "kernels of our own run recurrent layers";
    private static final int MAX_CALLS = 1024;

    private final Cudnn cudnn;
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Allocator memory;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final LastUsed<Call, State> states = new LastUsed<>(MAX_CALLS, s -> s.plans.size() == s.planned);
    private final RawPointer[] pointers = new RawPointer[14];
    private boolean toldRefusal;

    /** Makes it; the library is opened when it is first asked. */
    public CudnnRecurrer(Cudnn cudnn) {
        this.cudnn = cudnn;
        gpu = cudnn.gpu();
        stream = cudnn.stream();
        memory = cudnn.memory();
        for (int i = 0; i < pointers.length; i++) {
            pointers[i] = new RawPointer();
        }
    }

    /** What is known of a call. What was refused is never forgotten. */
    private static final class State {
        /** Those that may be asked, the fastest first; none of them where kernels of our own are to compute it. */
        private final Deque<RecurrencePlan> plans;
        private final int planned;
        private final long reserveBytes;
        private boolean proven;

        State(Deque<RecurrencePlan> plans) {
            this.plans = plans;
            planned = plans.size();
            reserveBytes = plans.stream().mapToLong(RecurrencePlan::reserveBytes).max().orElse(0);
        }

        /** Nobody is asked after one that could, so that no gradient reads what another one wrote, or nobody. */
        void refuse() {
            if (proven) {
                plans.clear();
            } else {
                plans.removeFirst();
            }
        }
    }

    /** Memory for the time of a call: what its blocks are lent for next is queued behind it. */
    private final class Lent implements AutoCloseable {
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
    public boolean takes(DType type) {
        return type.isFloating() && cudnn.isOpen(INSTEAD) && !cudnn.isFaulty(new Asked.Recurrence(type), INSTEAD);
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
            return isRun(call, operands, results, reserve);
        }
    }

    private boolean isRun(Call call, Operands operands, Results results, long reserve) {
        State state = state(call);
        while (!state.plans.isEmpty()) {
            if (isDone(call, run(state.plans.getFirst(), operands, results, reserve))) {
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
            return isRunBack(call, operands, y, reserve, incoming, gradients);
        }
    }

    private boolean isRunBack(Call call, Operands operands, long y, long reserve, Results incoming,
            Operands gradients) {
        State state = state(call);
        if (state.plans.isEmpty() || !state.proven) {
            return false;
        }
        if (isDone(call, back(state.plans.getFirst(), operands, y, reserve, incoming, gradients))) {
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
            states.overdue().forEach(gone -> gone.plans.forEach(RecurrencePlan::destroy));
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
                tellRefusal(call + " by algorithm " + algorithm, e);
            }
        }
        return plans;
    }

    /** Returns whether a call was carried out rather than refused. */
    private boolean isDone(Call call, int status) {
        if (CudnnException.isRefusal(status)) {
            tellRefusal(call + " (" + CudnnException.words("a recurrent layer", status) + ")", null);
            return false;
        }
        Descriptor.check(status, "a recurrent layer");
        return true;
    }

    private void tellRefusal(String what, GpuException cause) {
        LOG.log(toldRefusal ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING, "cuDNN refuses " + what
                + ": it is computed in another way from now on" + (toldRefusal ? ""
                : ". Others like it are told at level DEBUG"), cause);
        toldRefusal = true;
    }

    private int run(RecurrencePlan plan, Operands o, Results r, long reserve) {
        try (Lent lent = new Lent()) {
            long weights = lent.memory(plan.weightBytes());
            long work = lent.memory(plan.workspaceBytes());
            gather(plan, o, weights);
            gpu.enter();
            return cudnnRNNForward(cudnn.handle(), plan.layer(), plan.mode(), NO_LENGTHS, plan.x(), pointer(0, o.x()),
                    plan.y(), pointer(1, r.y()), plan.state(), pointer(2, o.h()), pointer(3, r.h()), plan.state(),
                    pointer(4, o.c()), pointer(5, r.c()), plan.weightBytes(), pointer(6, weights),
                    plan.workspaceBytes(), pointer(7, work), plan.reserveBytes(), pointer(8, reserve));
        }
    }

    private int back(RecurrencePlan plan, Operands o, long y, long kept, Results d, Operands to) {
        try (Lent lent = new Lent()) {
            long weights = lent.memory(plan.weightBytes());
            long slopes = lent.memory(plan.weightBytes());
            long work = lent.memory(plan.workspaceBytes());
            long reserve = lent.memory(plan.reserveBytes());
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
            // The library adds to what is there.
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

    /** Copies the weights to where the library wants them; gaps between them are zeros. */
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
