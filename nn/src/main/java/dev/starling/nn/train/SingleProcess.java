package dev.starling.nn.train;

import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;

/** Trains alone. May be extended by what looks on: nothing here has an effect. */
public class SingleProcess implements DistributionStrategy {
    @Override
    public int rank() {
        return 0;
    }

    @Override
    public int world() {
        return 1;
    }

    @Override
    public Share share() {
        return Share.WHOLE;
    }

    @Override
    public void start(TrainingState state) {
    }

    @Override
    public void gradient(int index, Tensor gradient) {
    }

    @Override
    public boolean sendsGradients() {
        return false;
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        return true;
    }

    @Override
    public void close() {
    }
}
