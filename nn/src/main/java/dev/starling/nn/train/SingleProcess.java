package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Tensor;

/** Trains alone. */
public final class SingleProcess implements DistributionStrategy {
    @Override
    public int rank() {
        return 0;
    }

    @Override
    public int world() {
        return 1;
    }

    @Override
    public void start(Layer model, Optimizer optimizer) {
    }

    @Override
    public void gradient(int index, Tensor gradient) {
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        return true;
    }

    @Override
    public void afterStep() {
    }

    @Override
    public void close() {
    }
}
