package dev.starling.cuda.kernels;

import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.spi.Backend;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Runs operations without a kernel on the host's reference device: downloads operands, uploads results. Slow; the first
 * use for each operation is logged.
 */
public final class HostFallback implements Kernels<Op> {
    private final Backend backend;
    private final Launcher launcher;
    private final Set<String> logged = ConcurrentHashMap.newKeySet();

    /** Makes the fallback of a backend. */
    public HostFallback(Backend backend, Launcher launcher) {
        this.backend = backend;
        this.launcher = launcher;
    }

    @Override
    public Answer compute(Op op, Tensor[] in, Tensor[] out) {
        if (logged.add(op.name())) {
            System.getLogger("dev.starling.cuda").log(System.Logger.Level.INFO, "the host computes {0} of {1}, which "
                    + "is slow: no kernel supports these operands", op.name(),
                    Arrays.stream(in).map(Tensor::spec).toList());
        }
        Tensor[] hosts = new Tensor[in.length];
        Arrays.setAll(hosts, i -> download(in[i]));
        Spec[] specs = new Spec[out.length];
        Arrays.setAll(specs, i -> new Spec(out[i].dtype(), out[i].shape(), Device.reference()));
        Tensor[] results = Device.reference().backend().run(op, hosts, specs);
        for (int i = 0; i < out.length; i++) {
            upload(results[i], out[i]);
        }
        return Answer.HANDLED;
    }

    private void upload(Tensor from, Tensor to) {
        Tensor dense = to.isContiguous() ? to : Storage.allocate(to.spec());
        backend.upload(from.address(), dense.address(), to.spec().bytes());
        if (dense != to) {
            launcher.assign(to, dense);
        }
    }

    /** Copies the memory that a tensor spans, gaps included, and returns the corresponding view of the copy. */
    private Tensor download(Tensor x) {
        long bytes = extent(x);
        Spec spec = new Spec(x.dtype(), Shape.of(bytes / x.dtype().bytes()), Device.reference());
        Tensor memory = Storage.allocate(spec);
        backend.download(first(x), memory.address(), bytes);
        return memory.storage().view(spec.with(x.shape()), x.sharedStrides(),
                (x.address() - first(x)) / x.dtype().bytes());
    }

    /** Returns the lowest address of an element. */
    private static long first(Tensor x) {
        long lowest = 0;
        for (int d = 0; d < x.rank(); d++) {
            lowest += Math.min(0, x.stride(d) * (x.size(d) - 1));
        }
        return x.count() == 0 ? x.address() : x.address() + lowest * x.dtype().bytes();
    }

    private static long extent(Tensor x) {
        long span = 1;
        for (int d = 0; d < x.rank(); d++) {
            span += Math.abs(x.stride(d) * (x.size(d) - 1));
        }
        return x.count() == 0 ? 0 : span * x.dtype().bytes();
    }
}
