package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;

/** max(x, 0), element by element. */
public record Relu() implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return x.relu();
    }

    @Override
    public Epilogue epilogue() {
        return Epilogue.RELU;
    }
}
