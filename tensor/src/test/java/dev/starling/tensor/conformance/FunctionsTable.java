package dev.starling.tensor.conformance;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The table in {@code docs/functions.md}: each function on tensors by name, with its call and its first sentence. */
final class FunctionsTable {
    private static final String HEAD = """
            # Functions by name
            How is a function on tensors called? Static methods of `Tensor` make tensors of numbers or of several
            tensors; methods of a tensor `x` compute from it; further functions are static methods of classes by topic.
            `random` is a `Generator`. All classes are in `dev.starling.tensor`. Most functions have further forms with
            more parameters, next to the one shown. Generated from the sources; `FunctionsTableTest` fails when it is
            out of date. [ops.md](ops.md) lists the operations behind these functions, with their types and gradients.

            | function | call | what it does |
            | --- | --- | --- |
            """;
    private static final Pattern METHOD = Pattern.compile("\\n    /\\*\\*((?:(?!\\*/).)*)\\*/\\s*(?:@\\w+\\s+)*"
            + "(public static|public|default) ([\\w.<>]+(?:\\[])?) (\\w+)\\(([^)]*)\\) \\{", Pattern.DOTALL);

    private FunctionsTable() {
    }

    static String render(OpsSource source) {
        Map<String, String> rows = new TreeMap<>();
        for (String holder : List.of("Arithmetic", "Reductions", "Shaping", "Indexing", "HostAccess")) {
            add(rows, source, holder, "default", "x");
        }
        for (String holder : List.of("Tensor", "Functions", "Convolutions", "Pools", "Norms", "Recurrences", "Losses",
                "Einsum")) {
            add(rows, source, holder, "public static", holder);
        }
        add(rows, source, "Generator", "public", "random");
        return HEAD + String.join("", rows.values());
    }

    private static void add(Map<String, String> rows, OpsSource source, String holder, String modifier, String owner) {
        Matcher m = METHOD.matcher(source.text(holder));
        while (m.find()) {
            boolean draws = !holder.equals("Generator") || m.group(3).equals("Tensor");
            if (m.group(2).equals(modifier) && draws) {
                String call = owner + "." + m.group(4) + "(" + names(m.group(5)) + ")";
                rows.putIfAbsent(m.group(4) + " " + owner, "| " + m.group(4) + " | `" + call + "` | "
                        + OpsSource.markdown(m.group(1)) + " |\n");
            }
        }
    }

    private static String names(String parameters) {
        return Arrays.stream(parameters.split(",")).map(p -> p.strip().replaceAll(".* ", ""))
                .collect(Collectors.joining(", "));
    }
}
