package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;

/** Operations that change their first operand, and their state, in place. */
final class ReferenceUpdate {
    private ReferenceUpdate() {
    }

    static void run(Update op, Tensor[] in) {
        switch (op) {
            case Update.Assign o -> assign(in[0], in[1]);
            case Update.Blend o -> {
                Elements target = Elements.of(in[0]);
                Elements source = Elements.of(in[1]);
                for (long i = 0; i < in[0].count(); i++) {
                    target.set(i, o.decay() * target.get(i) + o.weight() * source.get(i));
                }
            }
            case Update.RunningStatistics o -> runningStatistics(o, in);
            case Update.Sgd o -> sgd(o, in);
            case Update.Adam o -> adam(o, in);
        }
    }

    private static void runningStatistics(Update.RunningStatistics op, Tensor[] in) {
        Elements mean = Elements.of(in[0]);
        Elements batchMean = Elements.of(in[1]);
        Elements variance = Elements.of(in[2]);
        Elements inverseDeviation = Elements.of(in[3]);
        for (long i = 0; i < in[0].count(); i++) {
            double deviation = 1 / inverseDeviation.get(i);
            double batchVariance = op.unbiased() * Math.max(deviation * deviation - op.epsilon(), 0);
            if (Double.isFinite(batchVariance) && Double.isFinite(batchMean.get(i))) {
                mean.set(i, (1 - op.weight()) * mean.get(i) + op.weight() * batchMean.get(i));
                variance.set(i, (1 - op.weight()) * variance.get(i) + op.weight() * batchVariance);
            }
        }
    }

    /** Copies through temporary memory, because target and source may overlap. */
    private static void assign(Tensor target, Tensor source) {
        Elements from = Elements.of(source, target.shape());
        Elements to = Elements.of(target);
        int n = Math.toIntExact(target.count());
        double[] floats = new double[from.floating() ? n : 0];
        long[] integers = new long[from.floating() ? 0 : n];
        for (int i = 0; i < n; i++) {
            if (from.floating()) {
                floats[i] = from.get(i);
            } else {
                integers[i] = from.getLong(i);
            }
        }
        for (int i = 0; i < n; i++) {
            if (from.floating()) {
                to.set(i, floats[i]);
            } else {
                to.setLong(i, integers[i]);
            }
        }
    }

    private static void sgd(Update.Sgd op, Tensor[] in) {
        Elements parameter = Elements.of(in[0]);
        Elements gradient = Elements.of(in[1]);
        Elements velocity = in.length == 3 ? Elements.of(in[2]) : null;
        for (long i = 0; i < in[0].count(); i++) {
            double p = parameter.get(i);
            double g = gradient.get(i) + op.weightDecay() * p;
            double step = g;
            if (velocity != null) {
                double v = op.momentum() * velocity.get(i) + (1 - op.dampening()) * g;
                velocity.set(i, v);
                step = op.nesterov() ? g + op.momentum() * v : v;
            }
            parameter.set(i, p - op.rate() * step);
        }
    }

    private static void adam(Update.Adam op, Tensor[] in) {
        Elements parameter = Elements.of(in[0]);
        Elements gradient = Elements.of(in[1]);
        Elements mean = Elements.of(in[2]);
        Elements square = Elements.of(in[3]);
        double meanBias = 1 - StrictMath.pow(op.beta1(), op.step());
        double squareBias = 1 - StrictMath.pow(op.beta2(), op.step());
        for (long i = 0; i < in[0].count(); i++) {
            double p = parameter.get(i);
            double g = gradient.get(i) + (op.decoupled() ? 0 : op.weightDecay() * p);
            double m = op.beta1() * mean.get(i) + (1 - op.beta1()) * g;
            double v = op.beta2() * square.get(i) + (1 - op.beta2()) * g * g;
            mean.set(i, m);
            square.set(i, v);
            double shrunk = op.decoupled() ? p * (1 - op.rate() * op.weightDecay()) : p;
            parameter.set(i, shrunk - op.rate() * (m / meanBias) / (Math.sqrt(v / squareBias) + op.epsilon()));
        }
    }
}
