package dev.starling.nn;

import dev.starling.tensor.TensorException;

/** Adds the path of a layer or model to an error that occurs in it. */
final class LayerPath {
    private LayerPath() {
    }

    /** Returns {@code e}, which passes through {@code layer} on its way to the caller. */
    static TensorException within(Module layer, TensorException e) {
        Object inner = e.part();
        return inner == layer ? e : e.passing(layer, inner == null ? "" : name(layer, inner), describe(layer, e));
    }

    private static String describe(Module layer, TensorException e) {
        boolean closed = e.problem() == TensorException.Problem.CLOSED
                && layer.state().values().stream().anyMatch(p -> p.master().isClosed());
        return layer.describe() + "(" + layer.settings() + ")" + (closed ? ", whose parameters are closed" : "");
    }

    /** Returns the name that {@code layer} has for a layer directly inside it, or an empty text. */
    private static String name(Module layer, Object inner) {
        String[] found = {""};
        layer.visit(new Module.Visitor() {
            @Override
            public void parameter(String name, Parameter parameter) {
            }

            @Override
            public void layer(String name, Module each) {
                if (each == inner && found[0].isEmpty()) {
                    found[0] = name;
                }
            }
        });
        return found[0];
    }
}
