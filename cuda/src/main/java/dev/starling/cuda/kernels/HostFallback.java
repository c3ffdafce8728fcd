package dev.starling.cuda.kernels;

import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.Backend;
import java.util.Arrays;

/** Runs operations without a kernel on the host's reference device: downloads operands, uploads results. Slow. */
public final class HostFallback {
    private final Backend backend;

    /** Makes the fallback of a backend. */
    public HostFallback(Backend backend) {
        this.backend = backend;
    }

    /** Returns the results, on the device. */
    public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
        Tensor[] hosts = new Tensor[inputs.length];
        Tensor[] results = {};
        try {
            Arrays.setAll(hosts, i -> download(inputs[i]));
            Spec[] specs = new Spec[outputs.length];
            Arrays.setAll(specs, i -> new Spec(outputs[i].dtype(), outputs[i].shape(), Device.reference()));
            results = Device.reference().backend().run(op, hosts, specs);
            if (op instanceof Update) {
                for (int i = 0; i < inputs.length; i++) {
                    backend.upload(first(hosts[i]), first(inputs[i]), extent(inputs[i]));
                }
            }
            Tensor[] uploaded = new Tensor[results.length];
            for (int i = 0; i < results.length; i++) {
                uploaded[i] = Tensor.allocate(outputs[i]);
                backend.upload(results[i].address(), uploaded[i].address(), outputs[i].bytes());
            }
            return uploaded;
        } finally {
            close(hosts);
            close(results);
        }
    }

    private static void close(Tensor[] tensors) {
        for (Tensor t : tensors) {
            if (t != null) {
                t.close();
            }
        }
    }

    /** Copies the memory that a tensor spans, gaps included, and returns the corresponding view of the copy. */
    private Tensor download(Tensor x) {
        long bytes = extent(x);
        Spec spec = new Spec(x.dtype(), Shape.of(bytes / x.dtype().bytes()), Device.reference());
        Tensor memory = Tensor.allocate(spec);
        backend.download(first(x), memory.address(), bytes);
        return memory.storage().view(spec.with(x.shape()), x.strides(),
                (x.address() - first(x)) / x.dtype().bytes());
    }

    /** Returns the lowest address of an element. */
    private static long first(Tensor x) {
        long lowest = 0;
        for (int d = 0; d < x.rank(); d++) {
            lowest += Math.min(0, x.strides()[d] * (x.size(d) - 1));
        }
        return x.count() == 0 ? x.address() : x.address() + lowest * x.dtype().bytes();
    }

    private static long extent(Tensor x) {
        long span = 1;
        for (int d = 0; d < x.rank(); d++) {
            span += Math.abs(x.strides()[d] * (x.size(d) - 1));
        }
        return x.count() == 0 ? 0 : span * x.dtype().bytes();
    }
}
