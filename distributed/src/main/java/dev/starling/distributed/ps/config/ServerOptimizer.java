package dev.starling.distributed.ps.config;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;

/**
 * The rule by which a server changes weights. The learning rate is not part of it, because each gradient carries it.
 * The rules give the same numbers as those of {@link Update}.
 */
public sealed interface ServerOptimizer {
    /** Returns the number of state slots for each weight: 0, 1 or 2. */
    int slots();

    /**
     * Takes one step on the first {@code n} elements, in place.
     *
     * @param p weights
     * @param first first slot of the state; {@code null} without slots
     * @param second second slot of the state; {@code null} with fewer than two slots
     * @param g gradient
     * @param step number of the step, from 1
     */
    void step(float[] p, float[] first, float[] second, float[] g, int n, double rate, long step);

    /** Returns the rule of an optimiser's update operation, without its rate and step. */
    static ServerOptimizer of(Update op) {
        return switch (op) {
            case Update.Sgd s -> new Sgd(s.momentum(), s.dampening(), s.weightDecay(), s.nesterov());
            case Update.Adam a -> new Adam(a.beta1(), a.beta2(), a.epsilon(), a.weightDecay(), a.decoupled());
            case Update.Assign other -> throw noRule(other);
            case Update.Blend other -> throw noRule(other);
            case Update.RunningStatistics other -> throw noRule(other);
        };
    }

    private static TensorException noRule(Update op) {
        return TensorException.argument("parameter server", "servers do not support the update " + op,
                "use Sgd or Adam");
    }

    /** See {@link Update.Sgd}; plain gradient descent if all numbers are 0. */
    record Sgd(double momentum, double dampening, double weightDecay, boolean nesterov) implements ServerOptimizer {
        @Override
        public int slots() {
            return momentum == 0 ? 0 : 1;
        }

        @Override
        public void step(float[] p, float[] first, float[] second, float[] g, int n, double rate, long step) {
            float down = (float) -rate;
            float decay = (float) weightDecay;
            if (momentum == 0) {
                for (int i = 0; i < n; i++) {
                    p[i] = Math.fma(Math.fma(p[i], decay, g[i]), down, p[i]);
                }
                return;
            }
            float momentumFactor = (float) momentum;
            float gradientFactor = (float) (1 - dampening);
            if (nesterov) {
                for (int i = 0; i < n; i++) {
                    float gradient = Math.fma(p[i], decay, g[i]);
                    float velocity = Math.fma(gradient, gradientFactor, first[i] * momentumFactor);
                    first[i] = velocity;
                    p[i] = Math.fma(Math.fma(velocity, momentumFactor, gradient), down, p[i]);
                }
            } else {
                for (int i = 0; i < n; i++) {
                    float velocity = Math.fma(Math.fma(p[i], decay, g[i]), gradientFactor, first[i] * momentumFactor);
                    first[i] = velocity;
                    p[i] = Math.fma(velocity, down, p[i]);
                }
            }
        }
    }

    /** See {@link Update.Adam}. */
    record Adam(double beta1, double beta2, double epsilon, double weightDecay, boolean decoupled)
            implements ServerOptimizer {
        @Override
        public int slots() {
            return 2;
        }

        @Override
        public void step(float[] p, float[] first, float[] second, float[] g, int n, double rate, long step) {
            float decay = (float) (decoupled ? 0 : weightDecay);
            float shrink = (float) (decoupled ? 1 - rate * weightDecay : 1);
            float keepMean = (float) beta1;
            float takeMean = (float) (1 - beta1);
            float keepSquare = (float) beta2;
            float takeSquare = (float) (1 - beta2);
            float down = (float) (-rate / (1 - Math.pow(beta1, step)));
            float correction = (float) (1 / Math.sqrt(1 - Math.pow(beta2, step)));
            float small = (float) epsilon;
            for (int i = 0; i < n; i++) {
                float gradient = Math.fma(p[i], decay, g[i]);
                float mean = Math.fma(gradient, takeMean, first[i] * keepMean);
                float square = Math.fma(gradient * gradient, takeSquare, second[i] * keepSquare);
                first[i] = mean;
                second[i] = square;
                float deviation = Math.fma((float) Math.sqrt(square), correction, small);
                p[i] = Math.fma(mean / deviation, down, p[i] * shrink);
            }
        }
    }

    /**
     * {@code g += weightDecay·p; s += g²; p -= rate·g/(√s + ε)}; the sum starts at 0. (Duchi et al., 2011)
     *
     * @param epsilon against division by 0
     * @param weightDecay L2 penalty
     */
    record Adagrad(double epsilon, double weightDecay) implements ServerOptimizer {
        @Override
        public int slots() {
            return 1;
        }

        @Override
        public void step(float[] p, float[] first, float[] second, float[] g, int n, double rate, long step) {
            float down = (float) -rate;
            float decay = (float) weightDecay;
            float small = (float) epsilon;
            for (int i = 0; i < n; i++) {
                float gradient = Math.fma(p[i], decay, g[i]);
                float sum = Math.fma(gradient, gradient, first[i]);
                first[i] = sum;
                p[i] = Math.fma(gradient / ((float) Math.sqrt(sum) + small), down, p[i]);
            }
        }
    }

    /** Writes the rule in the form that {@link #read} reads. */
    default void write(DataOutput out) throws IOException {
        switch (this) {
            case Sgd s -> {
                out.writeByte(0);
                out.writeDouble(s.momentum);
                out.writeDouble(s.dampening);
                out.writeDouble(s.weightDecay);
                out.writeBoolean(s.nesterov);
            }
            case Adam a -> {
                out.writeByte(1);
                out.writeDouble(a.beta1);
                out.writeDouble(a.beta2);
                out.writeDouble(a.epsilon);
                out.writeDouble(a.weightDecay);
                out.writeBoolean(a.decoupled);
            }
            case Adagrad a -> {
                out.writeByte(2);
                out.writeDouble(a.epsilon);
                out.writeDouble(a.weightDecay);
            }
        }
    }

    /** Reads a rule that {@link #write} wrote. */
    static ServerOptimizer read(DataInput in) throws IOException {
        int kind = in.readByte();
        return switch (kind) {
            case 0 -> new Sgd(in.readDouble(), in.readDouble(), in.readDouble(), in.readBoolean());
            case 1 -> new Adam(in.readDouble(), in.readDouble(), in.readDouble(), in.readDouble(), in.readBoolean());
            case 2 -> new Adagrad(in.readDouble(), in.readDouble());
            default -> throw new IOException("unknown rule " + kind);
        };
    }
}
