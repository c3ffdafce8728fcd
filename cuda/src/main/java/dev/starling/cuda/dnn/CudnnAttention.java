package dev.starling.cuda.dnn;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.tensor.DType;
import java.util.Arrays;

/**
 * Attention by the graph interface of NVIDIA's cuDNN 9, on tensor cores, in bf16 and f16. Gradients are deterministic
 * if that needs at most 256 MiB of workspace, which the device's allocator provides for each call, and the property
 * {@code starling.cuda.nondeterministic} is not true. Otherwise the gradients of queries are summed in an arbitrary
 * order. {@link LibraryFaults} lists the calls for which the library is not used.
 */
public final class CudnnAttention implements AttentionLibrary {
    private static final String FALLBACK = "Starling's own kernels compute attention, which is slower";
    private static final int HOPPER = 90;
    private static final GraphPlan.Constraints DETERMINISTIC = new GraphPlan.Constraints(true, false, 1L << 28);
    private static final GraphPlan.Constraints NONDETERMINISTIC = new GraphPlan.Constraints(false, false, 1L << 28);

    private final Cudnn cudnn;
    private final int capability;
    private final boolean nondeterministic = Boolean.getBoolean("starling.cuda.nondeterministic");
    private CudnnGraphs graphs;

    private record Backward(AttentionCall call, boolean exact, boolean padded) { }

    /** Makes a wrapper for a device; the library is opened at its first use. */
    public CudnnAttention(Cudnn cudnn, Gpu gpu) {
        this.cudnn = cudnn;
        capability = capability(gpu.architecture());
    }

    /** An emulated GPU, whose architecture has another form, counts as Hopper. */
    private static int capability(String architecture) {
        return architecture.startsWith("sm_") ? Integer.parseInt(architecture.substring(3)) : HOPPER;
    }

    @Override
    public boolean supports(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    @Override
    public boolean supportsForward(AttentionCall call) {
        return isUsable(query(call, false, true));
    }

    @Override
    public boolean supportsBackward(AttentionCall call) {
        return isUsable(query(call, true, true)) || isUsable(query(call, true, false));
    }

    @Override
    public boolean needsLengths(AttentionCall call) {
        return LibraryFaults.find(LibraryFault.Remedy.PAD, LibraryFault.Library.CUDNN, cudnn.version(),
                query(call, true, false)) != null;
    }

    private LibraryQuery.Attention query(AttentionCall call, boolean backward, boolean deterministic) {
        return new LibraryQuery.Attention(backward, deterministic, call.causal(), call.mask() != null, call.batch(),
                call.heads(), call.queries(), call.keys(), call.width(), call.depth(), capability);
    }

    private boolean isUsable(LibraryQuery.Attention query) {
        return cudnn.isOpen(FALLBACK) && !cudnn.isFaulty(query, FALLBACK);
    }

    @Override
    public boolean forward(AttentionCall call, Operands at) {
        return graphs().run(call, DETERMINISTIC, () -> AttentionGraph.forward(call),
                nonZero(at.q(), at.k(), at.v(), at.y(), at.logs(), at.mask()));
    }

    @Override
    public boolean backward(AttentionCall call, Operands at, Gradients to) {
        boolean padded = needsLengths(call);
        for (boolean exact : new boolean[] {!nondeterministic, nondeterministic}) {
            if (isUsable(query(call, true, exact)) && graphs().run(new Backward(call, exact, padded),
                    exact ? DETERMINISTIC : NONDETERMINISTIC, () -> AttentionGraph.backward(call, exact, padded),
                    nonZero(at.q(), at.k(), at.v(), at.y(), at.logs(), to.g(), to.dq(), to.dk(), to.dv(), to.sums(),
                            exact ? 0 : to.slopes(), at.mask(), to.queryLengths(), to.keyLengths()))) {
                return true;
            }
        }
        return false;
    }

    private static long[] nonZero(long... addresses) {
        int count = 0;
        for (long address : addresses) {
            if (address != 0) {
                addresses[count++] = address;
            }
        }
        return Arrays.copyOf(addresses, count);
    }

    private synchronized CudnnGraphs graphs() {
        if (graphs == null) {
            graphs = new CudnnGraphs(cudnn, FALLBACK);
        }
        return graphs;
    }
}
