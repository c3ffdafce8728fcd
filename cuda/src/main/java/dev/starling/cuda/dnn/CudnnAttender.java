package dev.starling.cuda.dnn;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.known.Asked;
import dev.starling.cuda.known.LibraryFault;
import dev.starling.cuda.known.LibraryFaults;
import dev.starling.tensor.DType;
import java.util.Arrays;

/**
 * Attention by the graph interface of NVIDIA's cuDNN 9, on tensor cores, in bf16 and f16. Gradients have the same bits
 * every time where that takes no more than 256 MiB to work in, which are lent by the device's allocator for the time of
 * a call, and the property {@code starling.cuda.nondeterministic} is not true; else those of queries are summed in
 * whatever order. {@link LibraryFaults} says which calls the library is not asked for.
 */
public final class CudnnAttender implements Attender {
    private static final String INSTEAD = "kernels of our own attend, which are slower";
    private static final int HOPPER = 90;
    private static final GraphPlan.Demands SAME_BITS = new GraphPlan.Demands(true, false, 1L << 28);
    private static final GraphPlan.Demands ANY_BITS = new GraphPlan.Demands(false, false, 1L << 28);

    private final Cudnn cudnn;
    private final int capability;
    private final boolean anyBits = Boolean.getBoolean("starling.cuda.nondeterministic");
    private CudnnGraphs graphs;

    private record Backward(AttentionCall call, boolean exact, boolean padded) { }

    /** Makes it for a device; the library is opened when it is first asked. */
    public CudnnAttender(Cudnn cudnn, Gpu gpu) {
        this.cudnn = cudnn;
        capability = capability(gpu.architecture());
    }

    /** An emulated GPU, whose architecture has another name, counts as Hopper. */
    private static int capability(String architecture) {
        return architecture.startsWith("sm_") ? Integer.parseInt(architecture.substring(3)) : HOPPER;
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    @Override
    public boolean attends(AttentionCall call) {
        return isAsked(asked(call, false, true));
    }

    @Override
    public boolean derives(AttentionCall call) {
        return isAsked(asked(call, true, true)) || isAsked(asked(call, true, false));
    }

    @Override
    public boolean wantsLengths(AttentionCall call) {
        return LibraryFaults.find(LibraryFault.Remedy.PAD, LibraryFault.Library.CUDNN, cudnn.version(),
                asked(call, true, false)) != null;
    }

    private Asked.Attention asked(AttentionCall call, boolean backward, boolean sameBits) {
        return new Asked.Attention(backward, sameBits, call.causal(), call.mask() != null, call.batch(), call.heads(),
                call.queries(), call.keys(), call.width(), call.depth(), capability);
    }

    private boolean isAsked(Asked.Attention asked) {
        return cudnn.isOpen(INSTEAD) && !cudnn.isFaulty(asked, INSTEAD);
    }

    @Override
    public boolean forward(AttentionCall call, Operands at) {
        return graphs().run(call, SAME_BITS, () -> AttentionGraph.forward(call),
                without0(at.q(), at.k(), at.v(), at.y(), at.logs(), at.mask()));
    }

    @Override
    public boolean backward(AttentionCall call, Operands at, Gradients to) {
        boolean padded = wantsLengths(call);
        for (boolean exact : new boolean[] {!anyBits, anyBits}) {
            if (isAsked(asked(call, true, exact)) && graphs().run(new Backward(call, exact, padded),
                    exact ? SAME_BITS : ANY_BITS, () -> AttentionGraph.backward(call, exact, padded),
                    without0(at.q(), at.k(), at.v(), at.y(), at.logs(), to.g(), to.dq(), to.dk(), to.dv(), to.sums(),
                            exact ? 0 : to.slopes(), at.mask(), to.queryLengths(), to.keyLengths()))) {
                return true;
            }
        }
        return false;
    }

    private static long[] without0(long... addresses) {
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
            graphs = new CudnnGraphs(cudnn, INSTEAD);
        }
        return graphs;
    }
}
