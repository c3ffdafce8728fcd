package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import org.jspecify.annotations.Nullable;

/**
 * Both normalisations share one algorithm: elements belong to groups, channels or rows, that have a common mean and
 * deviation. They differ in the group of an element, and in its gamma and beta.
 */
final class ReferenceNormalization {
    private ReferenceNormalization() {
    }

    /** Returns the number of an element's group, or of its gamma and beta. */
    private interface Numbering {
        int of(long element);
    }

    static void run(Normalization op, Tensor[] in, Tensor[] out) {
        switch (op) {
            case Normalization.BatchNorm o -> {
                Numbering channel = channel(in[0]);
                normalize(in, out, channel, channel, o.epsilon(), o.epilogue());
            }
            case Normalization.LayerNorm o ->
                    normalize(in, out, row(in[1]), element(in[1]), o.epsilon(), Epilogue.NONE);
            case Normalization.BatchNormGradient o -> {
                Numbering channel = channel(in[1]);
                gradient(new Tensor[] {in[0], in[1], in[2], in[4], in[5]}, o.epilogue() == Epilogue.RELU ? in[3] : null,
                        out, channel, channel);
            }
            case Normalization.LayerNormGradient o -> gradient(in, null, out, row(in[2]), element(in[2]));
        }
    }

    private static Numbering channel(Tensor x) {
        long plane = x.shape().slice(2, x.rank()).count();
        return i -> (int) (i / plane % x.size(1));
    }

    private static Numbering row(Tensor gamma) {
        return i -> Math.toIntExact(i / gamma.count());
    }

    private static Numbering element(Tensor gamma) {
        return i -> (int) (i % gamma.count());
    }

    private static void normalize(Tensor[] in, Tensor[] out, Numbering group, Numbering weight, double epsilon,
            Epilogue epilogue) {
        Elements x = Elements.of(in[0]);
        long count = in[0].count();
        int groups = Math.toIntExact(out[1].count());
        double size = groups == 0 ? 0 : (double) count / groups;
        double[] mean = new double[groups];
        for (long i = 0; i < count; i++) {
            mean[group.of(i)] += x.get(i) / size;
        }
        double[] variance = new double[groups];
        for (long i = 0; i < count; i++) {
            double centred = x.get(i) - mean[group.of(i)];
            variance[group.of(i)] += centred * centred / size;
        }
        Elements gamma = Elements.of(in[1]);
        Elements beta = Elements.of(in[2]);
        Elements y = Elements.of(out[0]);
        for (long i = 0; i < count; i++) {
            double normal = (x.get(i) - mean[group.of(i)]) / Math.sqrt(variance[group.of(i)] + epsilon);
            double scaled = normal * gamma.get(weight.of(i)) + beta.get(weight.of(i));
            y.set(i, ReferenceKernels.apply(epilogue, scaled));
        }
        Elements means = Elements.of(out[1]);
        Elements inverses = Elements.of(out[2]);
        for (int j = 0; j < groups; j++) {
            means.set(j, mean[j]);
            inverses.set(j, 1 / Math.sqrt(variance[j] + epsilon));
        }
    }

    /**
     * With x̂ the normalised x and h = g·gamma: dx = (h - mean(h) - x̂·mean(h·x̂))/deviation, dgamma = Σ g·x̂ and dbeta
     * = Σ g.
     *
     * @param in g, x, gamma, mean, deviation⁻¹
     * @param rectified the output if ReLU followed, else {@code null}
     */
    private static void gradient(Tensor[] in, @Nullable Tensor rectified, Tensor[] out, Numbering group,
            Numbering weight) {
        Elements gamma = Elements.of(in[2]);
        Elements inverse = Elements.of(in[4]);
        int count = Math.toIntExact(in[1].count());
        int groups = Math.toIntExact(in[3].count());
        double[] g = gradientBeforeEpilogue(in[0], rectified);
        double[] normal = normalized(in, group);
        double[] meanH = new double[groups];
        double[] meanHx = new double[groups];
        double[] dgamma = new double[Math.toIntExact(in[2].count())];
        double[] dbeta = new double[dgamma.length];
        double size = groups == 0 ? 0 : (double) count / groups;
        for (int i = 0; i < count; i++) {
            double h = g[i] * gamma.get(weight.of(i));
            meanH[group.of(i)] += h / size;
            meanHx[group.of(i)] += h * normal[i] / size;
            dgamma[weight.of(i)] += g[i] * normal[i];
            dbeta[weight.of(i)] += g[i];
        }
        double[] dx = new double[count];
        for (int i = 0; i < count; i++) {
            int j = group.of(i);
            dx[i] = (g[i] * gamma.get(weight.of(i)) - meanH[j] - normal[i] * meanHx[j]) * inverse.get(j);
        }
        double[][] gradients = {dx, dgamma, dbeta};
        for (int o = 0; o < gradients.length; o++) {
            Elements.of(out[o]).setAll(gradients[o]);
        }
    }

    private static double[] gradientBeforeEpilogue(Tensor g, @Nullable Tensor rectified) {
        double[] before = new double[Math.toIntExact(g.count())];
        Elements from = Elements.of(g);
        Elements y = rectified == null ? null : Elements.of(rectified);
        for (int i = 0; i < before.length; i++) {
            before[i] = y == null || y.get(i) > 0 ? from.get(i) : 0;
        }
        return before;
    }

    private static double[] normalized(Tensor[] in, Numbering group) {
        Elements x = Elements.of(in[1]);
        Elements mean = Elements.of(in[3]);
        Elements inverse = Elements.of(in[4]);
        double[] normal = new double[Math.toIntExact(in[1].count())];
        for (int i = 0; i < normal.length; i++) {
            normal[i] = (x.get(i) - mean.get(group.of(i))) * inverse.get(group.of(i));
        }
        return normal;
    }
}
