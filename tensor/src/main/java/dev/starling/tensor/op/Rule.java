package dev.starling.tensor.op;

import static dev.starling.tensor.op.scalar.Scalar.operand;
import static dev.starling.tensor.op.scalar.Scalar.parameter;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import java.util.List;

/**
 * The rule of an optimiser: its settings except the learning rate, the state that it keeps, and its arithmetic. It is
 * defined here only: local optimisers, their checkpoints, the kernels of all devices and parameter servers read state
 * and formula from the record. {@link Update.Step} applies it to tensors. The names of the records and of their
 * components are part of the formats of files and messages; a component that is added later must mean by 0 what the
 * rule did before.
 */
public sealed interface Rule permits Rule.Sgd, Rule.Adam, Rule.Adagrad, Rule.Rmsprop, Rule.Lion {
    /** Returns the names of the state's tensors, each of the parameter's shape. */
    List<String> slots();

    /**
     * Returns the new elements of the parameter and of the state, in their order. Operands are the parameter, its
     * gradient and the state.
     */
    Formula formula();

    /**
     * Returns the value of a parameter of the formula in one step. Rates and decays are such parameters, so that a
     * schedule needs no new kernel.
     *
     * @param rate learning rate
     * @param step number of the step, from 1
     */
    double coefficient(int parameter, double rate, long step);

    /** Returns whether the parameters of the formula depend on the number of the step. */
    default boolean countsSteps() {
        return false;
    }

    /** Returns the value of all elements of the state before the first step. */
    default double initial() {
        return 0;
    }

    /** Returns the operation of a step; see {@link Update.Step}. */
    default Update.Step step(double rate, long step) {
        return new Update.Step(this, rate, step);
    }

    /** Returns the name of the rule, by which messages and files name it. */
    default String name() {
        return getClass().getSimpleName();
    }

    private static void require(boolean holds, String setting, double value, String range) {
        if (!holds) {
            throw TensorException.argument("optimiser rule", setting + " must be " + range + ", got " + value,
                    "check the settings of the optimiser");
        }
    }

    private static void requireDecay(String setting, double value) {
        require(value >= 0 && value < 1, setting, value, "in [0, 1)");
    }

    private static void requireNotNegative(String setting, double value) {
        require(value >= 0 && value < Double.POSITIVE_INFINITY, setting, value, "at least 0 and finite");
    }

    private static void requireFinite(String setting, double value) {
        require(Double.isFinite(value), setting, value, "finite");
    }

    /**
     * Gradient descent: {@code g += weightDecay·p; v = momentum·v + (1 - dampening)·g; p -= rate·(nesterov ? g +
     * momentum·v : v)}. Without momentum there is no velocity. (Sutskever et al., 2013)
     *
     * @param momentum in [0, 1), 0 for none
     * @param dampening of the gradient in the velocity, finite
     * @param weightDecay L2 penalty, at least 0
     * @param nesterov whether to use Nesterov momentum
     */
    record Sgd(double momentum, double dampening, double weightDecay, boolean nesterov) implements Rule {
        private static final List<String> VELOCITY = List.of("velocity");
        private static final Scalar DECAYED = operand(0).fma(parameter(1), operand(1));
        private static final Formula DESCENT = Formula.of(DECAYED.fma(parameter(0), operand(0)));
        private static final Formula MOMENTUM = withVelocity(false);
        private static final Formula NESTEROV = withVelocity(true);

        /** Throws {@link TensorException} for a setting out of its range. */
        public Sgd {
            requireDecay("momentum", momentum);
            requireFinite("dampening", dampening);
            requireNotNegative("weightDecay", weightDecay);
        }

        private static Formula withVelocity(boolean nesterov) {
            Scalar velocity = DECAYED.fma(parameter(3), operand(2).mul(parameter(2)));
            Scalar step = nesterov ? velocity.fma(parameter(2), DECAYED) : velocity;
            return Formula.of(step.fma(parameter(0), operand(0)), velocity);
        }

        @Override
        public List<String> slots() {
            return momentum == 0 ? List.of() : VELOCITY;
        }

        @Override
        public Formula formula() {
            return momentum == 0 ? DESCENT : nesterov ? NESTEROV : MOMENTUM;
        }

        @Override
        public double coefficient(int parameter, double rate, long step) {
            return switch (parameter) {
                case 0 -> -rate;
                case 1 -> weightDecay;
                case 2 -> momentum;
                default -> 1 - dampening;
            };
        }
    }

    /**
     * {@code m = β₁m + (1-β₁)g; v = β₂v + (1-β₂)g²; p -= rate·(m/(1-β₁ᵗ))/(√(v/(1-β₂ᵗ)) + ε)}. Weight decay is added
     * to the gradient or, decoupled, shrinks the parameter by {@code rate·weightDecay} first. (Kingma and Ba, 2014;
     * Loshchilov and Hutter, 2017)
     *
     * @param beta1 decay of the mean, in [0, 1)
     * @param beta2 decay of the square, in [0, 1)
     * @param epsilon avoids division by 0; at least 0
     * @param weightDecay strength of the decay, at least 0
     * @param decoupled whether the decay is decoupled, as in AdamW
     */
    record Adam(double beta1, double beta2, double epsilon, double weightDecay, boolean decoupled) implements Rule {
        private static final List<String> MOMENTS = List.of("mean", "square");
        private static final Formula PLAIN = formula(false);
        private static final Formula DECOUPLED = formula(true);

        /** Throws {@link TensorException} for a setting out of its range. */
        public Adam {
            requireDecay("beta1", beta1);
            requireDecay("beta2", beta2);
            requireNotNegative("epsilon", epsilon);
            requireNotNegative("weightDecay", weightDecay);
        }

        /**
         * Weight decay either shrinks the parameter or is added to the gradient. One formula for both would add 0 times
         * the parameter to the gradient, which is NaN for a parameter that is not finite. One of the bias corrections
         * is part of the rate, the other is a factor of the root.
         */
        private static Formula formula(boolean decoupled) {
            Scalar p = operand(0);
            Scalar shrunk = decoupled ? p.mul(parameter(0)) : p;
            Scalar g = decoupled ? operand(1) : p.fma(parameter(0), operand(1));
            Scalar mean = g.fma(parameter(2), operand(2).mul(parameter(1)));
            Scalar square = g.square().fma(parameter(4), operand(3).mul(parameter(3)));
            Scalar root = square.sqrt().fma(parameter(6), parameter(7));
            return Formula.of(mean.div(root).fma(parameter(5), shrunk), mean, square);
        }

        @Override
        public List<String> slots() {
            return MOMENTS;
        }

        @Override
        public Formula formula() {
            return decoupled ? DECOUPLED : PLAIN;
        }

        @Override
        public double coefficient(int parameter, double rate, long step) {
            return switch (parameter) {
                case 0 -> decoupled ? 1 - rate * weightDecay : weightDecay;
                case 1 -> beta1;
                case 2 -> 1 - beta1;
                case 3 -> beta2;
                case 4 -> 1 - beta2;
                case 5 -> -rate / (1 - StrictMath.pow(beta1, step));
                case 6 -> 1 / Math.sqrt(1 - StrictMath.pow(beta2, step));
                default -> epsilon;
            };
        }

        @Override
        public boolean countsSteps() {
            return true;
        }
    }

    /**
     * {@code g += weightDecay·p; s += g²; p -= rate·g/(√s + ε)}. (Duchi, Hazan and Singer, 2011)
     *
     * @param epsilon avoids division by 0; at least 0
     * @param weightDecay L2 penalty, at least 0
     * @param initial the sum before the first step, at least 0
     */
    record Adagrad(double epsilon, double weightDecay, double initial) implements Rule {
        private static final List<String> SUM = List.of("sum");
        private static final Formula FORMULA = divided();

        /** Throws {@link TensorException} for a setting out of its range. */
        public Adagrad {
            requireNotNegative("epsilon", epsilon);
            requireNotNegative("weightDecay", weightDecay);
            requireNotNegative("initial", initial);
        }

        private static Formula divided() {
            Scalar g = operand(0).fma(parameter(1), operand(1));
            Scalar sum = g.fma(g, operand(2));
            return Formula.of(g.div(sum.sqrt().add(parameter(2))).fma(parameter(0), operand(0)), sum);
        }

        @Override
        public List<String> slots() {
            return SUM;
        }

        @Override
        public Formula formula() {
            return FORMULA;
        }

        @Override
        public double coefficient(int parameter, double rate, long step) {
            return parameter == 0 ? -rate : parameter == 1 ? weightDecay : epsilon;
        }
    }

    /**
     * {@code g += weightDecay·p; v = decay·v + (1 - decay)·g²; u = g/(√v + ε); p -= rate·u}. Centred, {@code m =
     * decay·m + (1 - decay)·g} and the root is of {@code v - m²}. With momentum, {@code b = momentum·b + u} and
     * {@code p -= rate·b}. (Tieleman and Hinton, 2012; Graves, 2013)
     *
     * @param decay of the square and the mean, in [0, 1)
     * @param epsilon avoids division by 0; at least 0
     * @param weightDecay L2 penalty, at least 0
     * @param momentum in [0, 1), 0 for none
     * @param centred whether the square is reduced by that of the mean
     */
    record Rmsprop(double decay, double epsilon, double weightDecay, double momentum, boolean centred)
            implements Rule {
        private static final Formula[] FORMULAS = {formula(false, false), formula(false, true), formula(true, false),
            formula(true, true)};

        /** Throws {@link TensorException} for a setting out of its range. */
        public Rmsprop {
            requireDecay("decay", decay);
            requireNotNegative("epsilon", epsilon);
            requireNotNegative("weightDecay", weightDecay);
            requireDecay("momentum", momentum);
        }

        private static Formula formula(boolean momentum, boolean centred) {
            Scalar g = operand(0).fma(parameter(1), operand(1));
            Scalar square = g.square().fma(parameter(3), operand(2).mul(parameter(2)));
            Scalar mean = centred ? g.fma(parameter(3), operand(3).mul(parameter(2))) : square;
            // Rounded once: an infinite square less the square of a mean, which would be infinite too, stays infinite.
            // Rounding may make the difference slightly negative.
            Scalar variance = centred ? Scalar.of(Opcode.MAXIMUM, Scalar.of(Opcode.NEG, mean).fma(mean, square),
                    Scalar.constant(0)) : square;
            Scalar step = g.div(variance.sqrt().add(parameter(4)));
            Scalar velocity = momentum ? operand(centred ? 4 : 3).fma(parameter(5), step) : step;
            Scalar next = velocity.fma(parameter(0), operand(0));
            return centred ? momentum ? Formula.of(next, square, mean, velocity) : Formula.of(next, square, mean)
                    : momentum ? Formula.of(next, square, velocity) : Formula.of(next, square);
        }

        @Override
        public List<String> slots() {
            return centred ? momentum == 0 ? List.of("square", "mean") : List.of("square", "mean", "velocity")
                    : momentum == 0 ? List.of("square") : List.of("square", "velocity");
        }

        @Override
        public Formula formula() {
            return FORMULAS[(momentum == 0 ? 0 : 2) + (centred ? 1 : 0)];
        }

        @Override
        public double coefficient(int parameter, double rate, long step) {
            return switch (parameter) {
                case 0 -> -rate;
                case 1 -> weightDecay;
                case 2 -> decay;
                case 3 -> 1 - decay;
                case 4 -> epsilon;
                default -> momentum;
            };
        }
    }

    /**
     * {@code p *= 1 - rate·weightDecay; p -= rate·sign(β₁m + (1-β₁)g); m = β₂m + (1-β₂)g}. (Chen et al., Symbolic
     * discovery of optimization algorithms, 2023)
     *
     * @param beta1 share of the mean in the direction of a step, in [0, 1)
     * @param beta2 decay of the mean, in [0, 1)
     * @param weightDecay strength of the decoupled decay, at least 0
     */
    record Lion(double beta1, double beta2, double weightDecay) implements Rule {
        private static final List<String> MEAN = List.of("mean");
        private static final Formula FORMULA = signed();

        /** Throws {@link TensorException} for a setting out of its range. */
        public Lion {
            requireDecay("beta1", beta1);
            requireDecay("beta2", beta2);
            requireNotNegative("weightDecay", weightDecay);
        }

        private static Formula signed() {
            Scalar g = operand(1);
            Scalar m = operand(2);
            Scalar direction = Scalar.of(Opcode.SIGN, g.fma(parameter(3), m.mul(parameter(2))));
            return Formula.of(direction.fma(parameter(0), operand(0).mul(parameter(1))),
                    g.fma(parameter(5), m.mul(parameter(4))));
        }

        @Override
        public List<String> slots() {
            return MEAN;
        }

        @Override
        public Formula formula() {
            return FORMULA;
        }

        @Override
        public double coefficient(int parameter, double rate, long step) {
            return switch (parameter) {
                case 0 -> -rate;
                case 1 -> 1 - rate * weightDecay;
                case 2 -> beta1;
                case 3 -> 1 - beta1;
                case 4 -> beta2;
                default -> 1 - beta2;
            };
        }
    }
}
