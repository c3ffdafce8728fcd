package dev.starling.tensor.reference;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.FormulaOp;
import java.util.Objects;

/** Sums of products, one output element at a time. */
final class ReferenceContraction {
    private ReferenceContraction() {
    }

    static void run(Contraction op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case Contraction.MatMul o -> matMul(in[0], in[1], out[0]);
            case Contraction.Linear o -> linear(o, in, out);
            case Contraction.LinearInputGradient o -> inputGradient(o, in, out[0]);
            case Contraction.LinearWeightGradient o -> weightGradient(in[0], in[1], out[0], out[1]);
        }
    }

    private static void matMul(Tensor a, Tensor b, Tensor out) {
        long m = a.size(-2);
        long k = a.size(-1);
        long n = b.size(-1);
        Shape lead = out.shape().slice(0, out.rank() - 2);
        Elements left = Elements.of(a, lead.concat(Shape.of(m, k)));
        Elements right = Elements.of(b, lead.concat(Shape.of(k, n)));
        Elements y = Elements.of(out);
        for (long i = 0; i < out.count(); i++) {
            long row = i / n * k;
            long column = i / (m * n) * k * n + i % n;
            double sum = 0;
            long sumOfIntegers = 0;
            for (long j = 0; j < k; j++) {
                if (y.floating()) {
                    sum += left.get(row + j) * right.get(column + j * n);
                } else {
                    sumOfIntegers += left.getLong(row + j) * right.getLong(column + j * n);
                }
            }
            if (y.floating()) {
                y.set(i, sum);
            } else {
                y.setLong(i, sumOfIntegers);
            }
        }
    }

    private static void linear(Contraction.Linear op, Tensor[] in, Tensor[] out) {
        Elements x = Elements.of(in[0]);
        Elements weight = Elements.of(in[1]);
        Elements bias = in.length == 3 ? Elements.of(in[2]) : null;
        Elements y = Elements.of(out[0]);
        Elements kept = op.keeps() ? Elements.of(out[1]) : null;
        long outputs = in[1].size(0);
        long inputs = in[1].size(1);
        for (long i = 0; i < out[0].count(); i++) {
            long o = i % outputs;
            double sum = bias == null ? 0 : bias.get(o);
            for (long j = 0; j < inputs; j++) {
                sum += x.get(i / outputs * inputs + j) * weight.get(o * inputs + j);
            }
            y.set(i, ReferenceKernels.apply(op.epilogue(), sum));
            if (kept != null) {
                kept.set(i, sum);
            }
        }
    }

    private static void inputGradient(Contraction.LinearInputGradient op, Tensor[] in, Tensor out) {
        Elements g = Elements.of(in[0]);
        Elements weight = Elements.of(in[1]);
        Elements kept = Elements.of(in[2]);
        Elements y = Elements.of(out);
        long outputs = in[1].size(0);
        long inputs = in[1].size(1);
        FormulaOp gradient = Objects.requireNonNull(op.epilogue().gradient());
        for (long i = 0; i < out.count(); i++) {
            double sum = 0;
            for (long o = 0; o < outputs; o++) {
                sum += g.get(i / inputs * outputs + o) * weight.get(o * inputs + i % inputs);
            }
            y.set(i, FormulaInterpreter.value(gradient, kept.get(i), sum));
        }
    }

    private static void weightGradient(Tensor gradient, Tensor operand, Tensor weight, Tensor bias) {
        Elements g = Elements.of(gradient);
        Elements x = Elements.of(operand);
        Elements w = Elements.of(weight);
        Elements b = Elements.of(bias);
        long rows = gradient.shape().slice(0, gradient.rank() - 1).count();
        long outputs = weight.size(0);
        long inputs = weight.size(1);
        for (long o = 0; o < outputs; o++) {
            for (long i = 0; i < inputs; i++) {
                double sum = 0;
                for (long r = 0; r < rows; r++) {
                    sum += g.get(r * outputs + o) * x.get(r * inputs + i);
                }
                w.set(o * inputs + i, sum);
            }
            double sum = 0;
            for (long r = 0; r < rows; r++) {
                sum += g.get(r * outputs + o);
            }
            b.set(o, sum);
        }
    }
}
