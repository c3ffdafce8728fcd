package dev.starling.distributed.ps.store;

import dev.starling.tensor.cpu.jit.ArrayLoop;
import dev.starling.tensor.op.Rule;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * Weights and the state of the rule that changes them, with the loop that is compiled from the rule's formula. Its
 * results have the same bits as those of an optimiser on the CPU. For one thread at a time.
 */
public final class TrainedWeights {
    private final Rule rule;
    private final int length;
    /** The operands of the formula: weights, gradient, state. */
    private final float[][] operands;
    private final ArrayLoop loop;
    /** Coefficients of some steps, and the steps and the rates that they belong to. */
    private final double[][] coefficients;
    private final long[] steps;
    private final double[] rates;

    /**
     * Creates weights of 0, with the rule's initial state.
     *
     * @param knownSteps number of steps whose coefficients are kept, a power of 2: 1 if steps follow each other
     */
    public TrainedWeights(Rule rule, int length, int knownSteps) {
        this.rule = rule;
        this.length = length;
        int slots = rule.slots().size();
        operands = new float[2 + slots][];
        for (int k = 0; k < operands.length; k++) {
            operands[k] = k == 1 ? null : new float[length];
            if (k > 1) {
                Arrays.fill(operands[k], (float) rule.initial());
            }
        }
        loop = ArrayLoop.of(rule.formula(), IntStream.rangeClosed(0, slots).map(TrainedWeights::operand).toArray());
        coefficients = new double[knownSteps][rule.formula().parameters()];
        steps = new long[knownSteps];
        rates = new double[knownSteps];
    }

    private static int operand(int array) {
        return array == 0 ? 0 : 1 + array;
    }

    /** Copies the first numbers of the weights (array 0) or of an array of the state (from 1 on). */
    public void get(int array, float[] into, int at, int count) {
        System.arraycopy(operands[operand(array)], 0, into, at, count);
    }

    /** Replaces the first numbers of an array; see {@link #get}. */
    public void set(int array, float[] from, int at, int count) {
        System.arraycopy(from, at, operands[operand(array)], 0, count);
    }

    /** Takes a step along a gradient, which may be longer than the weights; steps count from 1. */
    public void step(float[] gradient, double rate, long step) {
        int known = (int) step & steps.length - 1;
        double[] values = coefficients[known];
        if (steps[known] != step || rates[known] != rate) {
            for (int i = 0; i < values.length; i++) {
                values[i] = rule.coefficient(i, rate, step);
            }
            steps[known] = step;
            rates[known] = rate;
        }
        operands[1] = gradient;
        loop.run(operands, values, length);
        operands[1] = null;
    }
}
