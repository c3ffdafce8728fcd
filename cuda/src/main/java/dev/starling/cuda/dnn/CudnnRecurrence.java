package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.CUDNN_WGRAD_MODE_ADD;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardData_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNBackwardWeights_v8;
import static org.bytedeco.cuda.global.cudnn.cudnnRNNForward;

import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.RawPointer;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.RecurrenceKernels;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.memory.LruMap;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.spi.Block;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.Pointer;
import org.jspecify.annotations.Nullable;

/**
 * Recurrent layers by NVIDIA's cuDNN 9, by its deterministic algorithms. The library expects all weights in one piece
 * of memory, so each call copies them there, and their gradients back from such a piece. Its backward pass overwrites
 * the reserve of the forward pass; it gets a copy, since a gradient may be computed twice. f32 is multiplied in full
 * precision unless the configuration allows TF32; 16-bit types accumulate in f32.
 */
public final class CudnnRecurrence implements Kernels<Recurrence> {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final @Nullable IntPointer NO_LENGTHS = null;
    private static final String FALLBACK = "Starling's own kernels run recurrent layers";
    private static final int MAX_CALLS = 1024;
    private static final Answer UNSUPPORTED = new Answer.Declined("cuDNN has no such layer, or not this reserve");
    private static final Answer REFUSED = new Answer.Declined("cuDNN has no algorithm for this layer");

    private final Cudnn cudnn;
    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Workspaces memory;
    private final Launcher launcher;
    private final boolean tf32;
    private final LruMap<RecurrenceCall, State> states = new LruMap<>(MAX_CALLS, s -> s.plans.size() == s.planned);
    private boolean loggedRefusal;

    /** Makes the kernels; the library is opened at its first use. */
    public CudnnRecurrence(Cudnn cudnn, Launcher launcher, CudaConfig config) {
        this.cudnn = cudnn;
        this.launcher = launcher;
        tf32 = config.tf32();
        gpu = cudnn.gpu();
        stream = cudnn.stream();
        memory = cudnn.memory();
    }

    /** The state of a call. A refusal is never forgotten. */
    private final class State {
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
         * Destroys the first plan. Once a plan has succeeded, destroys all: no other plan may read the reserve that it
         * wrote.
         */
        void refuse() {
            gpu.enter();
            do {
                plans.removeFirst().destroy();
            } while (proven && !plans.isEmpty());
        }

        void destroy() {
            gpu.enter();
            plans.forEach(RecurrencePlan::destroy);
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

    /**
     * Returns the size in bytes of the reserve that a layer fills; it never changes.
     *
     * @return 0 if there is none: the library does not compute the layer, or the layer keeps nothing
     */
    public long reserveBytes(Recurrence.Forward op, Spec... operands) {
        Optional<RecurrenceCall> call = call(op, op.operands(operands), true);
        synchronized (cudnn) {
            return call.map(c -> state(c).reserveBytes).orElse(0L);
        }
    }

    /** Returns the call of a layer or its gradients, or nothing if the library does not compute it. */
    private Optional<RecurrenceCall> call(Recurrence op, Recurrence.Operands<Spec> in, boolean kept) {
        Shape x = in.x().shape();
        Shape h = in.h().shape();
        DType type = in.x().dtype();
        boolean supported = in.lengths() == null && x.count() > 0 && h.count() > 0 && RecurrenceKernels.fits(x, h)
                && type.isFloating() && cudnn.isOpen(FALLBACK)
                && !cudnn.isFaulty(new LibraryQuery.Recurrence(type), FALLBACK);
        return !supported ? Optional.empty() : Optional.of(new RecurrenceCall(op.cell(), type, (int) x.dim(0),
                (int) x.dim(1), Math.toIntExact(x.dim(2)), (int) h.dim(1), in.bias() != null, kept));
    }

    @Override
    public Answer compute(Recurrence op, Tensor[] in, Tensor[] out) {
        boolean gradient = op instanceof Recurrence.Gradient;
        Tensor reserve = gradient ? in[states(op) + 2] : out[out.length - 1];
        boolean kept = RecurrenceKernels.belongsToLibrary(reserve);
        Spec[] specs = new Spec[in.length];
        Arrays.setAll(specs, i -> in[i].spec());
        Optional<RecurrenceCall> call = call(op, op.operands(specs), kept);
        if (call.isEmpty() || !kept && (gradient || op instanceof Recurrence.Forward f && f.keeps())) {
            return UNSUPPORTED;
        }
        Tensor[] dense = new Tensor[in.length];
        Arrays.setAll(dense, i -> launcher.dense(in[i]));
        return switch (op) {
            case Recurrence.Forward f -> forward(call.get(), f, dense, out, kept ? reserve : null);
            case Recurrence.Gradient g -> gradients(call.get(), g, dense, out);
        };
    }

    /** Computes a layer; for a reversed one the steps are reversed in copies. */
    private Answer forward(RecurrenceCall call, Recurrence.Forward op, Tensor[] in, Tensor[] out,
            @Nullable Tensor reserve) {
        Recurrence.Operands<Tensor> given = op.operands(in);
        Recurrence.Operands<Tensor> o = with(given, inOrder(op, given.x()));
        Tensor[] results = {op.reverse() ? Storage.allocate(out[0].spec()) : out[0], out[1],
            states(op) == 1 ? null : out[2]};
        synchronized (cudnn) {
            State state = state(call);
            while (!state.plans.isEmpty()) {
                RecurrencePlan plan = state.plans.getFirst();
                if (isComputed(call, cudnn.attempt(() -> run(plan, o, results, reserve)))) {
                    state.proven = true;
                    restore(out[0], results[0]);
                    return Answer.HANDLED;
                }
                state.refuse();
            }
        }
        return REFUSED;
    }

    /** Computes gradients, unless the forward pass was computed otherwise. */
    private Answer gradients(RecurrenceCall call, Recurrence.Gradient op, Tensor[] in, Tensor[] out) {
        int states = states(op);
        Recurrence.Operands<Tensor> given = op.operands(in);
        Recurrence.Operands<Tensor> o = with(given, inOrder(op, given.x()));
        Tensor[] incoming = {inOrder(op, in[0]), in[1], states == 1 ? null : in[2]};
        Tensor y = inOrder(op, in[states + 1]);
        Tensor dx = op.reverse() || !op.input() ? Storage.allocate(given.x().spec()) : out[0];
        Recurrence.Operands<Tensor> to = with(op.forward(true).operands(out), dx);
        synchronized (cudnn) {
            State state = state(call);
            if (state.plans.isEmpty() || !state.proven) {
                return REFUSED;
            }
            RecurrencePlan plan = state.plans.getFirst();
            if (!isComputed(call, cudnn.attempt(() -> backward(plan, o, y, in[states + 2], incoming, to)))) {
                state.refuse();
                return REFUSED;
            }
        }
        if (op.input()) {
            restore(out[0], dx);
        }
        return Answer.HANDLED;
    }

    private static int states(Recurrence op) {
        return op.cell() == Recurrence.Cell.LSTM ? 2 : 1;
    }

    private static Recurrence.Operands<Tensor> with(Recurrence.Operands<Tensor> o, Tensor x) {
        return new Recurrence.Operands<>(x, o.h(), o.c(), o.weight(), o.recurrentWeight(), o.bias(), o.recurrentBias(),
                o.lengths());
    }

    /** Returns a tensor whose steps are in the layer's order: itself, or a reversed copy. */
    private Tensor inOrder(Recurrence op, Tensor x) {
        return op.reverse() ? launcher.copied(reversed(x)) : x;
    }

    /** Copies a result whose steps are reversed. */
    private void restore(Tensor to, Tensor from) {
        if (to != from) {
            launcher.assign(to, reversed(from));
        }
    }

    /** Returns a view of a dense tensor with its first dimension reversed. */
    private static Tensor reversed(Tensor x) {
        long[] strides = x.strides();
        long last = x.offset() + (x.size(0) - 1) * strides[0];
        strides[0] = -strides[0];
        return x.storage().view(x.spec(), strides, last);
    }

    private State state(RecurrenceCall call) {
        State state = states.get(call);
        if (state == null) {
            state = new State(plans(call));
            states.put(call, state);
            states.evict().forEach(State::destroy);
        }
        return state;
    }

    private Deque<RecurrencePlan> plans(RecurrenceCall call) {
        Deque<RecurrencePlan> plans = new ArrayDeque<>();
        for (int algorithm : RecurrencePlan.algorithms(call)) {
            try {
                plans.add(plan(call, algorithm));
            } catch (GpuException e) {
                logRefusal(call + " by algorithm " + algorithm, e);
            }
        }
        return plans;
    }

    /** Makes a plan; if the library may have found no memory, frees cached memory and tries once more. */
    private RecurrencePlan plan(RecurrenceCall call, int algorithm) {
        gpu.enter();
        try {
            return RecurrencePlan.of(cudnn.handle(), call, algorithm, tf32);
        } catch (CudnnException e) {
            if (!CudnnException.isTransient(e.status()) || memory.isCapturing()) {
                throw e;
            }
            memory.trim();
            gpu.enter();
            return RecurrencePlan.of(cudnn.handle(), call, algorithm, tf32);
        }
    }

    /** Returns whether the library computed a call, neither refused it nor lacked memory. */
    private boolean isComputed(RecurrenceCall call, int status) {
        if (CudnnException.isRefusal(status) || CudnnException.isTransient(status) && !memory.isCapturing()) {
            logRefusal(call + " (" + CudnnException.describe("a recurrent layer", status) + ")", null);
            return false;
        }
        Descriptor.check(status, "a recurrent layer");
        return true;
    }

    private void logRefusal(String what, @Nullable GpuException cause) {
        LOG.log(loggedRefusal ? System.Logger.Level.DEBUG : System.Logger.Level.WARNING, "cuDNN does not compute "
                + what + ": another algorithm or Starling's own kernel computes it from now on"
                + (loggedRefusal ? "" : ". Further cases are logged at level DEBUG"), cause);
        loggedRefusal = true;
    }

    private int run(RecurrencePlan plan, Recurrence.Operands<Tensor> o, Tensor[] r, @Nullable Tensor reserve) {
        try (Workspace workspace = new Workspace()) {
            long weights = workspace.memory(plan.weightBytes());
            long work = workspace.memory(plan.workspaceBytes());
            gather(plan, o, weights);
            gpu.enter();
            return cudnnRNNForward(cudnn.handle(), plan.layer(), plan.mode(), NO_LENGTHS, plan.x(), pointer(o.x()),
                    plan.y(), pointer(r[0]), plan.state(), pointer(o.h()), pointer(r[1]), plan.state(),
                    pointer(o.c()), pointer(r[2]), plan.weightBytes(), RawPointer.of(weights),
                    plan.workspaceBytes(), RawPointer.of(work), plan.reserveBytes(), pointer(reserve));
        }
    }

    private int backward(RecurrencePlan plan, Recurrence.Operands<Tensor> o, Tensor y, Tensor kept, Tensor[] d,
            Recurrence.Operands<Tensor> to) {
        try (Workspace workspace = new Workspace()) {
            long weights = workspace.memory(plan.weightBytes());
            long slopes = workspace.memory(plan.weightBytes());
            long work = workspace.memory(plan.workspaceBytes());
            long reserve = workspace.memory(plan.reserveBytes());
            gpu.copy(kept.address(), reserve, plan.reserveBytes(), stream);
            gather(plan, o, weights);
            gpu.enter();
            int status = cudnnRNNBackwardData_v8(cudnn.handle(), plan.layer(), NO_LENGTHS, plan.y(), pointer(y),
                    pointer(d[0]), plan.x(), pointer(to.x()), plan.state(), pointer(o.h()),
                    pointer(d[1]), pointer(to.h()), plan.state(), pointer(o.c()), pointer(d[2]),
                    pointer(to.c()), plan.weightBytes(), RawPointer.of(weights), plan.workspaceBytes(),
                    RawPointer.of(work), plan.reserveBytes(), RawPointer.of(reserve));
            if (status != CUDNN_STATUS_SUCCESS) {
                return status;
            }
            // The library adds to what the memory contains.
            gpu.fill(slopes, (byte) 0, plan.weightBytes(), stream);
            gpu.enter();
            status = cudnnRNNBackwardWeights_v8(cudnn.handle(), plan.layer(), CUDNN_WGRAD_MODE_ADD, NO_LENGTHS,
                    plan.x(), pointer(o.x()), plan.state(), pointer(o.h()), plan.y(), pointer(y),
                    plan.weightBytes(), RawPointer.of(slopes), plan.workspaceBytes(), RawPointer.of(work),
                    plan.reserveBytes(), RawPointer.of(reserve));
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
    private void gather(RecurrencePlan plan, Recurrence.Operands<Tensor> o, long space) {
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
    private static long[] weights(Recurrence.Operands<Tensor> o) {
        return new long[] {o.weight().address(), o.recurrentWeight().address(), address(o.bias()),
            address(o.recurrentBias())};
    }

    private static long address(@Nullable Tensor x) {
        return x == null ? 0 : x.address();
    }

    private static Pointer pointer(@Nullable Tensor x) {
        return RawPointer.of(address(x));
    }
}
