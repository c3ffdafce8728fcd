package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/**
 * A gated perceptron without biases, {@code down(silu(gate(x))·up(x))}: {@code x [.., width]} to the same shape, with
 * {@code gate} and {@code up [hidden, width]} and {@code down [width, hidden]}. (Shazeer, 2020)
 */
public final class SwiGlu implements Layer, Container {
    private final Layer gate;
    private final Layer up;
    private final Layer down;

    private SwiGlu(Layer gate, Layer up, Layer down) {
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
    public SwiGlu with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "gate" -> new SwiGlu(layer, up, down);
            case "up" -> new SwiGlu(gate, layer, down);
            case "down" -> new SwiGlu(gate, up, layer);
            default -> throw Container.refuse(this, name, replacement);
        };
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
