package dev.starling.nn;

import dev.starling.tensor.TensorException;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** Collects the parameters of a module and of all modules inside it by path. */
final class StateWalk implements Module.Visitor {
    private final Map<String, Parameter> found = new LinkedHashMap<>();
    private final Set<Parameter> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    private String prefix = "";

    private StateWalk() {
    }

    static Map<String, Parameter> of(Module layer) {
        StateWalk walk = new StateWalk();
        layer.visit(walk);
        return walk.found;
    }

    @Override
    public void parameter(String name, Parameter parameter) {
        if (seen.add(parameter) && found.put(prefix + name, parameter) != null) {
            throw TensorException.argument("layer", "two parameters have the path " + prefix + name,
                    "give one of them another name in visit()");
        }
    }

    @Override
    public void layer(String name, Module inner) {
        String outer = prefix;
        prefix = outer + name + ".";
        inner.visit(this);
        prefix = outer;
    }
}
