package dev.starling.autograd;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Derivatives of functions of one tensor, in forward and reverse mode, of any order. */
public final class Derivatives {
    private Derivatives() {
    }

    /** Returns the gradient of {@code f} at {@code x}. The result of {@code f} must have one element. */
    public static Tensor gradient(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> f.apply(x));
        return orZeros(tape.backward(y).get(x), x);
    }

    /**
     * Returns the vector-Jacobian product {@code vᵀJ} of {@code f} at {@code x}, with {@code v} of the shape of
     * {@code f(x)}.
     */
    public static Tensor vjp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> f.apply(x));
        return orZeros(tape.backward(y, v).get(x), x);
    }

    /**
     * Returns the Jacobian-vector product {@code Jv} of {@code f} at {@code x}, with {@code v} of the shape of
     * {@code x}: {@code uᵀJ} is linear in {@code u}, and its gradient along {@code v} is {@code Jv}.
     */
    public static Tensor jvp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape inner = new Tape().watch(x);
        Tensor y = inner.record(() -> f.apply(x));
        Tensor u = y.zerosLike();
        Tape outer = new Tape().watch(u);
        Tensor product = outer.record(() -> orZeros(inner.backward(y, u).get(x), x));
        return outer.depends(product) ? orZeros(outer.backward(product, v).get(u), u) : u;
    }

    /** Returns the Hessian-vector product {@code Hv} of a function whose result has one element. */
    public static Tensor hvp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape tape = new Tape().watch(x);
        Tensor slope = tape.record(() -> {
            Tensor y = f.apply(x);
            return orZeros(tape.backward(y).get(x), x).mul(v).sum();
        });
        return tape.depends(slope) ? orZeros(tape.backward(slope).get(x), x) : x.zerosLike();
    }

    /** Returns the Jacobian {@code [*f(x), *x]}, computed one row at a time. */
    public static Tensor jacobian(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> f.apply(x));
        return rows(tape, y, x);
    }

    /** Returns the Hessian {@code [*x, *x]} of a function whose result has one element. */
    public static Tensor hessian(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        Tensor slope = tape.record(() -> orZeros(tape.backward(f.apply(x)).get(x), x));
        return rows(tape, slope, x);
    }

    private static Tensor rows(Tape tape, Tensor y, Tensor x) {
        int n = Math.toIntExact(y.count());
        Tensor[] rows = new Tensor[n];
        for (int i = 0; i < n; i++) {
            Tensor unit = Tensor.arange(
                    new Spec(y.dtype(), Shape.of(n), y.device()), -i, 1).eq(0).to(y.dtype());
            rows[i] = tape.depends(y) ? orZeros(tape.backward(y, unit.reshape(y.shape())).get(x), x) : x.zerosLike();
        }
        return Tensor.stack(0, rows).reshape(y.shape().concat(x.shape()));
    }

    private static Tensor orZeros(@Nullable Tensor gradient, Tensor x) {
        return gradient == null ? x.zerosLike() : gradient;
    }
}
