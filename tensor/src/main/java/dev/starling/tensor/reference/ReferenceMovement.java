package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.View;

/** Copies elements. */
final class ReferenceMovement {
    private ReferenceMovement() {
    }

    static void run(Movement op, Tensor[] in, Tensor out) {
        switch (op) {
            case Movement.Copy o -> copy(in[0], out);
            case Movement.Concat o -> {
                long from = 0;
                for (Tensor x : in) {
                    long[] starts = new long[x.rank()];
                    starts[o.axis()] = from;
                    copy(x, grid(out, starts, ones(x.rank()), x));
                    from += x.size(o.axis());
                }
            }
            case Movement.Place o -> {
                Elements y = Elements.of(out);
                for (long i = 0; i < out.count(); i++) {
                    y.set(i, o.value());
                }
                copy(in[0], grid(out, o.starts(), o.steps(), in[0]));
            }
        }
    }

    static void copy(Tensor from, Tensor to) {
        Elements x = Elements.of(from);
        Elements y = Elements.of(to);
        for (long i = 0; i < from.count(); i++) {
            y.copy(i, x, i);
        }
    }

    private static Tensor grid(Tensor tensor, long[] starts, long[] steps, Tensor like) {
        return new View.Slice(starts, steps, like.shape().dims()).view(tensor, tensor.spec().with(like.shape()));
    }

    private static long[] ones(int n) {
        long[] ones = new long[n];
        java.util.Arrays.fill(ones, 1);
        return ones;
    }
}
