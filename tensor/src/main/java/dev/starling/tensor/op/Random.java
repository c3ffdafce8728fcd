package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * Random numbers as a function of seed, counter and position, by Philox 4×32-10 (Salmon et al., 2011): element
 * {@code i} in row-major order is lane {@code i mod 4} of the block at {@code counter + ⌊i/4⌋}, so that every device,
 * thread count and memory layout gives the same bits. Numbers are computed in f32 and converted to the result's type;
 * each record's {@code at} defines them. See {@link Philox}.
 */
public sealed interface Random extends Op {
    /** Returns the stream's seed. */
    long seed();

    /** Returns the first block. */
    long counter();

    /** Returns the same operation with another stream and first block. */
    Random at(long newSeed, long newCounter);

    /** Returns the number of blocks that {@code elements} elements use. */
    static long blocks(long elements) {
        return Math.ceilDiv(elements, 4);
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    /**
     * Uniform over [low, high).
     *
     * @param spec of the result; floating
     * @param low smallest value
     * @param high exclusive upper bound
     * @param seed the stream
     * @param counter the first block
     */
    record Uniform(Spec spec, double low, double high, long seed, long counter) implements Random {
        @Override
        public Random at(long newSeed, long newCounter) {
            return new Uniform(spec, low, high, newSeed, newCounter);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 0, 0);
            Check.floating(this, spec);
            if (!((float) low < (float) high && (float) (high - low) < Float.POSITIVE_INFINITY)) {
                throw Check.argument(this, "low < high must hold in f32, got " + low + " and " + high,
                        "change the bounds", spec);
            }
            return new Spec[] {spec};
        }

        /**
         * Returns element {@code i}: {@code low + u·(high - low)} in f32, fused, but {@link #below} where that would
         * round up to {@code high}.
         */
        public float at(long i) {
            float value = Math.fma(Philox.uniformAt(seed, counter, i), (float) (high - low), (float) low);
            return Math.min(value, below());
        }

        /** Returns the largest value of the result's type that is less than {@code high}, or {@code low} if more. */
        public float below() {
            float next = Math.nextDown((float) high);
            float below = switch (spec.dtype()) {
                case BF16 -> {
                    int bits = Float.floatToRawIntBits(next);
                    yield Float.intBitsToFloat((next > 0 ? bits : bits + 0xFFFF) & 0xFFFF0000);
                }
                case F16 -> {
                    short half = Float.floatToFloat16(next);
                    float rounded = Float.float16ToFloat(half);
                    short lower = (short) (rounded == 0 ? 0x8001 : rounded > 0 ? half - 1 : half + 1);
                    yield rounded <= next ? rounded : Float.float16ToFloat(lower);
                }
                default -> next;
            };
            return Math.max(below, (float) low);
        }
    }

    /**
     * Normal, by the Box-Muller transform of pairs of lanes.
     *
     * @param spec of the result; floating
     * @param mean of the distribution
     * @param deviation of the distribution
     * @param seed the stream
     * @param counter the first block
     */
    record Normal(Spec spec, double mean, double deviation, long seed, long counter) implements Random {
        @Override
        public Random at(long newSeed, long newCounter) {
            return new Normal(spec, mean, deviation, newSeed, newCounter);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 0, 0);
            Check.floating(this, spec);
            if (!(Double.isFinite(mean) && deviation >= 0 && deviation < Double.POSITIVE_INFINITY)) {
                throw Check.argument(this, "needs a finite mean and a deviation >= 0, got " + mean + " and "
                        + deviation, "change mean or deviation", spec);
            }
            return new Spec[] {spec};
        }

        /** Returns element {@code i}: {@code z·deviation + mean} in f32, fused. */
        public float at(long i) {
            return Math.fma(Philox.normalAt(seed, counter, i), (float) deviation, (float) mean);
        }
    }

    /**
     * 1 with a probability, else 0.
     *
     * @param spec of the result; any type
     * @param probability of 1
     * @param seed the stream
     * @param counter the first block
     */
    record Bernoulli(Spec spec, double probability, long seed, long counter) implements Random {
        @Override
        public Random at(long newSeed, long newCounter) {
            return new Bernoulli(spec, probability, newSeed, newCounter);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 0, 0);
            if (!(probability >= 0 && probability <= 1)) {
                throw Check.argument(this, "0 <= probability <= 1 must hold, got " + probability,
                        "give a number from 0 to 1", spec);
            }
            return new Spec[] {spec};
        }

        /** Returns whether element {@code i} is 1. */
        public boolean at(long i) {
            return Philox.bernoulliAt(seed, counter, i, (float) probability);
        }
    }

    /**
     * Integers uniform over [low, high): {@code low + ⌊u·(high - low)/2³²⌋} of 32 random bits u.
     *
     * @param spec of the result; an integer type
     * @param low smallest value
     * @param high exclusive upper bound, at most 2³² above {@code low}
     * @param seed the stream
     * @param counter the first block
     */
    record Integers(Spec spec, long low, long high, long seed, long counter) implements Random {
        @Override
        public Random at(long newSeed, long newCounter) {
            return new Integers(spec, low, high, newSeed, newCounter);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 0, 0);
            Check.dtype(spec.dtype().isInteger(), this, "needs an integer type", "use uniform for floats", spec);
            if (high <= low || high - low <= 0 || high - low > 1L << 32) {
                throw Check.argument(this, "low < high <= low + 2^32 must hold, got " + low + " and " + high,
                        "change the bounds", spec);
            }
            return new Spec[] {spec};
        }

        /** Returns element {@code i}. */
        public long at(long i) {
            return low + ((Philox.bitsAt(seed, counter, i) & 0xFFFFFFFFL) * (high - low) >>> 32);
        }
    }

    /**
     * Sets each element independently to 0, with the given probability, or else divides it by {@code 1 - probability}.
     * A backend may multiply by the rounded {@code 1/(1 - probability)} instead. No mask is stored: the gradient draws
     * the same numbers again. (Srivastava et al., 2014)
     *
     * @param probability of 0
     * @param seed the stream
     * @param counter the first block
     */
    record Dropout(double probability, long seed, long counter) implements Random {
        @Override
        public Random at(long newSeed, long newCounter) {
            return new Dropout(probability, newSeed, newCounter);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 1, 1);
            Check.floating(this, in);
            if (!(probability >= 0 && probability < 1)) {
                throw Check.argument(this, "0 <= probability < 1 must hold, got " + probability,
                        "change the probability", in);
            }
            return new Spec[] {in[0]};
        }

        /** Returns whether element {@code i} is kept. */
        public boolean keeps(long i) {
            return !Philox.bernoulliAt(seed, counter, i, (float) probability);
        }

        @Override
        public boolean differentiable() {
            return true;
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {Tensor.compute(this, b.grad())};
        }
    }
}
