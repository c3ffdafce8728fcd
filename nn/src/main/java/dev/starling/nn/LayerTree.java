package dev.starling.nn;

/** Prints a layer or model, and below it the layers that it contains. */
final class LayerTree implements Module.Visitor {
    private static final String STEP = "  ";

    private final StringBuilder text = new StringBuilder();
    private String indent = "";
    /** Whether the layer that is being visited contains others. */
    private boolean branches;

    private LayerTree() {
    }

    static String of(Module layer) {
        LayerTree tree = new LayerTree();
        tree.append(layer);
        return tree.text.toString();
    }

    private void append(Module layer) {
        int start = text.append(layer.describe()).append('(').length();
        boolean outer = branches;
        String before = indent;
        branches = false;
        indent = before + STEP;
        layer.visit(this);
        indent = before;
        text.insert(start, branches && layer instanceof Record ? "" : layer.settings());
        text.append(branches ? "\n" + indent + ")" : ")");
        branches = outer;
    }

    @Override
    public void parameter(String name, Parameter parameter) {
    }

    @Override
    public void layer(String name, Module inner) {
        branches = true;
        text.append('\n').append(indent).append('(').append(name).append("): ");
        append(inner);
    }
}
