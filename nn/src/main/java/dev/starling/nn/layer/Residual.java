package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Adds the result of a body to its input: {@code body(x) + shortcut(x)}. (He et al., 2015) */
public final class Residual implements Layer, Container {
    private final Layer body;
    private final @Nullable Layer shortcut;

    private Residual(Layer body, @Nullable Layer shortcut) {
        this.body = body;
        this.shortcut = shortcut;
    }

    /** Returns a layer that computes {@code body(x) + x}. */
    public static Residual of(Layer body) {
        return new Residual(body, null);
    }

    /** Returns a layer that computes {@code body(x) + shortcut(x)}, for a body that changes the shape. */
    public static Residual of(Layer body, Layer shortcut) {
        return new Residual(body, shortcut);
    }

    @Override
    public Tensor forward(Tensor x) {
        return body.apply(x).add(shortcut == null ? x : shortcut.apply(x));
    }

    @Override
    public Residual with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "body" -> new Residual(layer, shortcut);
            case "shortcut" -> new Residual(body, layer);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("body", body);
        if (shortcut != null) {
            visitor.layer("shortcut", shortcut);
        }
    }

    @Override
    public String toString() {
        return tree();
    }
}
