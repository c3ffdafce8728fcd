package dev.starling.cuda.dnn;

import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.kernels.AdditiveMask;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.AttentionCall;
import dev.starling.cuda.kernels.AttentionKernels;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Attention by the graph interface of NVIDIA's cuDNN 9, on tensor cores, in bf16 and f16. Gradients are deterministic
 * if that needs at most 256 MiB of workspace, which the device's allocator provides for each call, and the
 * configuration does not allow others. Otherwise the gradients of queries are summed in an arbitrary order.
 * {@link LibraryFaults} lists the calls for which the library is not used.
 */
public final class CudnnAttention implements Kernels<Attention> {
    private static final String FALLBACK = "Starling's own kernels compute attention, which is slower";
    private static final GraphPlan.Constraints DETERMINISTIC = new GraphPlan.Constraints(true, false, 1L << 28);
    private static final GraphPlan.Constraints NONDETERMINISTIC = new GraphPlan.Constraints(false, false, 1L << 28);
    private static final Answer UNSUPPORTED = new Answer.Declined("cuDNN needs bf16 or f16, rows at 16-byte multiples");
    private static final Answer FAULTY = new Answer.Declined("cuDNN is not open, or has a known fault");

    private final Cudnn cudnn;
    private final Launcher launcher;
    private final int capability;
    private final boolean nondeterministic;
    private final CudnnGraphs graphs;

    private record Backward(AttentionCall call, boolean exact, boolean padded) { }

    /** Makes the kernels; the library is opened at its first use. */
    public CudnnAttention(Cudnn cudnn, Launcher launcher, CudaConfig config) {
        this.cudnn = cudnn;
        this.launcher = launcher;
        capability = LibraryFaults.capability(cudnn.gpu().architecture());
        nondeterministic = config.nondeterministic();
        graphs = new CudnnGraphs(cudnn, config, FALLBACK);
    }

    @Override
    public Tensor[] allocate(Attention op, Tensor[] in, Spec[] outputs) {
        return AttentionKernels.results(op, in, outputs);
    }

    @Override
    public Answer compute(Attention op, Tensor[] in, Tensor[] out) {
        DType type = in[0].dtype();
        if (type != DType.BF16 && type != DType.F16) {
            return UNSUPPORTED;
        }
        boolean backward = op instanceof Attention.ScaledDotProductGradient;
        Tensor q = in[backward ? 1 : 0];
        Tensor k = in[backward ? 2 : 1];
        Tensor v = in[backward ? 3 : 2];
        Tensor y = backward ? in[4] : out[0];
        Tensor mask = in.length == (backward ? 7 : 4) ? in[in.length - 1] : null;
        Optional<AttentionCall> call = AttentionCall.of(op, q, k, v, mask, y, backward ? in[0] : null);
        if (call.isEmpty()) {
            return UNSUPPORTED;
        }
        if (!cudnn.isOpen(FALLBACK) || !isUsable(call.get(), true) && !(backward && isUsable(call.get(), false))) {
            return FAULTY;
        }
        AdditiveMask added = mask == null ? null : AdditiveMask.of(launcher, mask, call.get());
        return backward ? backward(call.get(), added == null ? null : added.added(), in, out)
                : forward(call.get(), added, in, out);
    }

    /** Returns whether no known fault affects a call. */
    private boolean isUsable(AttentionCall call, boolean deterministic) {
        return !cudnn.isFaulty(query(call, deterministic), FALLBACK);
    }

    private LibraryQuery.Attention query(AttentionCall call, boolean deterministic) {
        return new LibraryQuery.Attention(call.g() != null, deterministic, call.causal(), call.mask() != null,
                call.batch(), call.heads(), call.queries(), call.keys(), call.width(), call.depth(), capability);
    }

    private Answer forward(AttentionCall call, @Nullable AdditiveMask mask, Tensor[] in, Tensor[] out) {
        Answer answer = graphs.run(call, DETERMINISTIC, () -> AttentionGraph.forward(call),
                CudnnGraphs.addresses(in[0], in[1], in[2], out[0], out[1], mask == null ? null : mask.added()));
        if (answer.isHandled() && mask != null) {
            mask.close(out[0], out[1], call);
        }
        return answer;
    }

    private Answer backward(AttentionCall call, @Nullable Tensor mask, Tensor[] in, Tensor[] out) {
        boolean padded = LibraryFaults.find(LibraryFault.Remedy.PAD, LibraryFault.Library.CUDNN, cudnn.version(),
                query(call, false)) != null;
        Tensor logs = launcher.dense(in[5]);
        Tensor sums = Storage.allocate(logs.spec());
        Tensor slopes = Storage.allocate(logs.spec().with(logs.shape().concat(Shape.of(call.width()))));
        Tensor queries = padded ? lengths(call, call.queries(), logs) : null;
        Tensor keys = padded ? lengths(call, call.keys(), logs) : null;
        Tensor log = mask == null ? logs : AdditiveMask.negated(launcher, logs);
        Answer answer = FAULTY;
        for (boolean exact : new boolean[] {!nondeterministic, nondeterministic}) {
            if (!answer.isHandled() && isUsable(call, exact)) {
                answer = graphs.run(new Backward(call, exact, padded), exact ? DETERMINISTIC : NONDETERMINISTIC,
                        () -> AttentionGraph.backward(call, exact, padded),
                        CudnnGraphs.addresses(in[1], in[2], in[3], in[4], log, in[0], out[0], out[1], out[2], sums,
                                exact ? null : slopes, mask, queries, keys));
            }
        }
        return answer;
    }

    /** Returns the lengths of all sequences, none of which is padded. */
    private Tensor lengths(AttentionCall call, long length, Tensor like) {
        Tensor lengths = Storage.allocate(new Spec(DType.I32, Shape.of(call.batch()), like.device()));
        launcher.fill(lengths, length);
        return lengths;
    }
}
