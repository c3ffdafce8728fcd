package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Sums of products. Operands are read through their strides, so that a transposed one is not copied. */
public sealed interface Contraction extends Op {
    /**
     * {@code [.., m, k] · [.., k, n] → [.., m, n]}, leading dimensions broadcast; any number type, sums as in
     * {@link Reduction.Sum} but in the operands' type.
     */
    record MatMul() implements Contraction {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.sameType(this, in);
            Shape a = in[0].shape();
            Shape b = in[1].shape();
            Check.shape(a.rank() >= 2 && b.rank() >= 2, this, "needs rank >= 2",
                    "use the method matmul, or unsqueeze", in);
            Check.shape(a.dim(-1) == b.dim(-2), this,
                    () -> "inner sizes must agree: " + a.dim(-1) + " ≠ " + b.dim(-2),
                    "transpose or reshape an operand", in);
            Shape lead = Shape.broadcast(a.slice(0, a.rank() - 2), b.slice(0, b.rank() - 2));
            Check.shape(lead != null, this, "leading dimensions must broadcast", "reshape an operand", in);
            return new Spec[] {in[0].with(lead.concat(Shape.of(a.dim(-2), b.dim(-1))))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {
                b.needs(0) ? b.grad().matmul(b.in(1).transpose(-2, -1)).sumTo(b.in(0).shape()) : null,
                b.needs(1) ? b.in(0).transpose(-2, -1).matmul(b.grad()).sumTo(b.in(1).shape()) : null};
        }
    }

    /**
     * A dense layer: operands {@code (x [.., in], weight [out, in])} and optionally {@code bias [out]} give
     * {@code epilogue(x·weightᵀ + bias) [.., out]}.
     *
     * @param epilogue applied to the result before it is written
     */
    record Linear(Epilogue epilogue) implements Contraction {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 3);
            Check.floating(this, in);
            Check.sameType(this, in);
            Check.rank(this, in[1], 2, in);
            Check.shape(in[0].shape().rank() >= 1 && in[0].shape().dim(-1) == in[1].shape().dim(1), this,
                    () -> "the last size of x must be the weight's inputs, " + in[1].shape().dim(1),
                    "flatten or reshape x", in);
            Check.shape(in.length == 2 || in[2].shape().equals(Shape.of(in[1].shape().dim(0))), this,
                    () -> "the bias must be [" + in[1].shape().dim(0) + "]", "give a bias of one value an output", in);
            return new Spec[] {in[0].with(in[0].shape().with(-1, in[1].shape().dim(0)))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor g = epilogue.gradient(b);
            Tensor x = b.in(0);
            Tensor w = b.in(1);
            Tensor g2 = g.rank() == 2 ? g : g.reshape(Shape.of(g.count() / Math.max(w.size(0), 1), w.size(0)));
            Tensor x2 = x.rank() == 2 ? x : x.reshape(Shape.of(x.count() / Math.max(w.size(1), 1), w.size(1)));
            Tensor[] result = new Tensor[b.inputs().length];
            result[0] = b.needs(0) ? g2.matmul(w).reshape(x.shape()) : null;
            result[1] = b.needs(1) ? g2.transpose(0, 1).matmul(x2) : null;
            if (result.length == 3 && b.needs(2)) {
                result[2] = g2.sum(0);
            }
            return result;
        }
    }
}
