package dev.starling.cuda.kernels;

import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import java.util.List;

/**
 * The kernels of a family in the order in which they are tried: libraries, Starling's own, the host. Results are
 * allocated once, in the layout that the first kernels prefer: while a program runs, each of its allocations has a
 * fixed place. Other tensors that kernels allocate are freed when the operation is queued: its kernels run before
 * those of later operations.
 *
 * @param <O> the family
 */
public final class KernelChain<O extends Op> {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private final List<Kernels<O>> links;
    private final HostFallback host;

    /**
     * Makes a chain.
     *
     * @param links tried in this order
     * @param host computes what all of them decline
     */
    public KernelChain(List<? extends Kernels<O>> links, HostFallback host) {
        this.links = List.copyOf(links);
        this.host = host;
    }

    /** Returns the results. */
    public Tensor[] run(O op, Tensor[] in, Spec[] outputs) {
        Tensor[] out = links.getFirst().allocate(op, in, outputs);
        try (Scope temporaries = Scope.open("temporaries")) {
            compute(op, in, out);
        }
        return out;
    }

    private void compute(O op, Tensor[] in, Tensor[] out) {
        for (Kernels<O> link : links) {
            switch (link.compute(op, in, out)) {
                case Answer.Handled _ -> {
                    return;
                }
                case Answer.Declined(String reason) -> {
                    if (LOG.isLoggable(System.Logger.Level.DEBUG)) {
                        LOG.log(System.Logger.Level.DEBUG, "{0} decline {1}: {2}", link.getClass().getSimpleName(),
                                op.name(), reason);
                    }
                }
            }
        }
        host.compute(op, in, out);
    }
}
