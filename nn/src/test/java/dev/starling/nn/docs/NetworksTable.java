package dev.starling.nn.docs;

import dev.starling.tensor.conformance.OpsSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Renders the page of layers, losses, metrics, optimisers, schedules and initialisers from their sources. */
final class NetworksTable {
    private static final String COMMENT = "/\\*\\*((?:(?!\\*/).)*)\\*/\\s*(?:@\\w+\\s+)*";
    private static final Pattern TYPE = Pattern.compile(COMMENT
            + "public (?:final )?(class|record) (\\w+)(?:\\(([^)]*)\\))?", Pattern.DOTALL);
    private static final Pattern FACTORY = Pattern.compile(COMMENT
            + "(?:public )?(static|default) [\\w<>.]+ (\\w+)\\(([^)]*)\\)", Pattern.DOTALL);
    private static final Pattern SETTING = Pattern.compile(COMMENT + "public (\\w+Loss) (\\w+)\\(([^)]*)\\)",
            Pattern.DOTALL);

    private final Path sources;
    private final StringBuilder page = new StringBuilder();

    NetworksTable(Path root) {
        sources = root.resolve("nn/src/main/java/dev/starling/nn");
    }

    String render() throws IOException {
        page.append("""
                # Layers, losses, metrics and optimisers
                What is there to build and train a network, and how is it made? A row shows one way to make an object;
                the Javadoc has all of them, with shapes and papers. Names and meanings follow PyTorch where Java
                allows.
                Generated from the sources; `NetworksTableTest` fails when it is out of date.

                """.indent(0));
        section("Layers", "layer");
        for (Path file : files("layer")) {
            layer(Files.readString(file));
        }
        section("Preprocessing", "preprocess");
        for (Path file : files("preprocess")) {
            layer(Files.readString(file));
        }
        section("Losses", "loss");
        methods("loss/Loss.java", "Loss", List.of("classAxis", "describe", "divisor", "expectsProbabilities"));
        settings("loss/CrossEntropyLoss.java", "Loss.crossEntropy()");
        settings("loss/CtcLoss.java", "Loss.ctc()");
        settings("loss/BinaryCrossEntropyLoss.java", "Loss.binaryCrossEntropy()");
        methods("loss/Objective.java", "Objective", List.of());
        section("Metrics", "train");
        methods("train/Metric.java", "Metric", List.of("format"));
        methods("train/Metrics.java", "Metrics", List.of());
        methods("train/ConfusionMatrix.java", "ConfusionMatrix", List.of("of", "count"));
        section("Optimisers", "optim");
        for (Path file : files("optim")) {
            optimizer(Files.readString(file));
        }
        section("Schedules of the learning rate", "optim");
        methods("optim/Schedule.java", "Schedule", List.of());
        methods("train/Plateau.java", "Plateau", List.of());
        section("Initialisers", "nn");
        methods("Initializer.java", "Initializer", List.of());
        page.append("""

                ## A gradient of your own
                `dev.starling.autograd.CustomGradient` gives a function a gradient in place of that of its operations.
                This layer rounds and passes gradients on unchanged:

                ```java
                Layer rounded = x -> CustomGradient.apply(in -> in[0].round(),
                        (in, result, gradient) -> new Tensor[] {gradient}, x);
                ```
                """.indent(0));
        return page.toString();
    }

    private List<Path> files(String folder) throws IOException {
        try (Stream<Path> all = Files.list(sources.resolve(folder))) {
            return all.sorted().toList();
        }
    }

    private void section(String title, String folder) {
        String inner = folder.equals("nn") ? "" : "." + folder;
        page.append(page.toString().endsWith("\n\n") ? "" : "\n");
        page.append("## ").append(title).append("\nPackage `dev.starling.nn").append(inner)
                .append("`.\n\n| call | what it does |\n| --- | --- |\n");
    }

    private void row(String call, String javadoc) {
        page.append("| `").append(call).append("` | ").append(OpsSource.markdown(javadoc)).append(" |\n");
    }

    /** Returns the names of parameters. */
    private static String names(String parameters) {
        return parameters.isBlank() ? "" : Arrays.stream(parameters.split(",(?![^<]*>)"))
                .map(p -> p.strip().replaceAll(".*[ \\s]", "")).collect(Collectors.joining(", "));
    }

    private void layer(String text) {
        Matcher type = TYPE.matcher(text);
        if (!type.find()) {
            return;
        }
        String name = type.group(3);
        Matcher factory = FACTORY.matcher(text);
        String call = type.group(2).equals("record") ? "new " + name + "(" + names(type.group(4)) + ")" : name;
        while (factory.find()) {
            if (factory.group(2).equals("static") && factory.group(0).contains("public static") && call.equals(name)) {
                call = name + "." + factory.group(3) + "(" + names(factory.group(4)) + ")";
            }
        }
        // A class without a factory is made by others, which have rows of their own.
        if (!call.equals(name)) {
            row(call, type.group(1));
        }
    }

    private void optimizer(String text) {
        Matcher type = TYPE.matcher(text);
        if (!type.find() || type.group(3).equals("Builder")) {
            return;
        }
        Matcher factory = FACTORY.matcher(text);
        while (factory.find()) {
            if (factory.group(0).contains("public static")) {
                row(type.group(3) + "." + factory.group(3) + "(" + names(factory.group(4)) + ")",
                        factory.group(3).matches("over|of") ? type.group(1) : factory.group(1));
            }
        }
    }

    private void methods(String file, String owner, List<String> without) throws IOException {
        String text = Files.readString(sources.resolve(file));
        boolean type = !text.contains("public interface");
        Matcher factory = FACTORY.matcher(text);
        while (factory.find()) {
            boolean visible = !type || factory.group(0).contains("public static");
            boolean value = factory.group(2).equals("default");
            String name = factory.group(3);
            if (visible && !without.contains(name) && !name.equals("expectsLogits") && !name.equals("widens")) {
                row((value ? owner.substring(0, 1).toLowerCase() + owner.substring(1) : owner) + "." + name + "("
                        + names(factory.group(4)) + ")", factory.group(1));
            }
        }
    }

    private void settings(String file, String call) throws IOException {
        Matcher setting = SETTING.matcher(Files.readString(sources.resolve(file)));
        while (setting.find()) {
            row(call + "." + setting.group(3) + "(" + names(setting.group(4)) + ")", setting.group(1));
        }
    }
}
