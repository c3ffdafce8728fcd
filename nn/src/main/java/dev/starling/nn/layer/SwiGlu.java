package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/**
 * A gated perceptron without biases, {@code down(silu(gate(x))·up(x))}: {@code x [.., width]} to the same shape, with
 * {@code gate} and {@code up [hidden, width]} and {@code down [width, hidden]}. (Shazeer, 2020)
 */
public final class SwiGlu implements Layer {
    private final Linear gate;
    private final Linear up;
    private final Linear down;

    private SwiGlu(Linear gate, Linear up, Linear down) {
        this.gate = gate;
        this.up = up;
        this.down = down;
    }

    /** Returns a layer with weights drawn as those of {@link Linear#of(long, long, Generator)}. */
    public static SwiGlu of(long width, long hidden, Generator generator) {
        return new SwiGlu(Linear.withoutBias(width, hidden, generator), Linear.withoutBias(width, hidden, generator),
                Linear.withoutBias(hidden, width, generator));
    }

    @Override
    public Tensor forward(Tensor x) {
        return down.apply(gate.apply(x).silu().mul(up.apply(x)));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("gate", gate);
        visitor.layer("up", up);
        visitor.layer("down", down);
    }

    @Override
    public String toString() {
        return tree();
    }
}
