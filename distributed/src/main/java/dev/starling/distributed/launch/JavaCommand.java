package dev.starling.distributed.launch;

import dev.starling.tensor.TensorException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The command that started this Java program, for starting it again. */
final class JavaCommand {
    /** Variables from which a JVM takes flags; those of this JVM are in the command. */
    static final List<String> VARIABLES = List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS");
    /** Flags that name a port or a file of one process: debuggers, remote management, archives of classes. */
    private static final Pattern OF_ONE_PROCESS = Pattern.compile("-agentlib:jdwp.*|-Xrunjdwp.*"
            + "|-agentpath:[^=]*jdwp.*|-Dcom\\.sun\\.management\\.jmxremote\\.(rmi\\.)?port=.*"
            + "|-XX:(AOTCacheOutput|AOTConfiguration|AOTMode|ArchiveClassesAtExit)=.*");

    private JavaCommand() {
    }

    /** Returns whether another process may have a flag, too. */
    static boolean isShared(String flag) {
        return !OF_ONE_PROCESS.matcher(flag).matches();
    }

    /** Returns this JVM's command, flags and class path, without the main class. */
    private static List<String> flags() {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream().filter(JavaCommand::isShared)
                .forEach(command::add);
        add(command, "--module-path", System.getProperty("jdk.module.path"));
        add(command, "-cp", System.getProperty("java.class.path"));
        return command;
    }

    private static void add(List<String> command, String flag, @Nullable String value) {
        if (value != null && !value.isEmpty()) {
            command.add(flag);
            command.add(value);
        }
    }

    /** Returns the command that starts another main class with this JVM's flags and class path. */
    static List<String> of(Class<?> main, List<String> arguments) {
        List<String> command = flags();
        if (main.getModule().isNamed()) {
            command.add("-m");
            command.add(main.getModule().getName() + "/" + main.getName());
        } else {
            command.add(main.getName());
        }
        command.addAll(arguments);
        return command;
    }

    /** Returns the command that starts this program again. */
    static List<String> ofThisProgram(List<String> arguments) {
        List<String> command = flags();
        String module = System.getProperty("jdk.module.main");
        String all = System.getProperty("sun.java.command", "");
        String path = System.getProperty("java.class.path", "");
        // The path of a jar may have spaces; with -jar, it is the whole class path.
        boolean jar = path.endsWith(".jar") && (all.equals(path) || all.startsWith(path + ' '));
        String started = jar ? path : all.split(" ", 2)[0];
        if (started.isEmpty()) {
            throw TensorException.argument("launcher", "this JVM was not started by the java command",
                    "name a main class");
        }
        if (started.startsWith("jdk.compiler/")) {
            throw TensorException.argument("launcher", "this program was started from its source file, " + all,
                    "compile it and start its class");
        }
        if (module != null) {
            command.add("-m");
        } else if (started.endsWith(".jar")) {
            command.subList(command.size() - 2, command.size()).clear();
            command.add("-jar");
        }
        command.add(started);
        command.addAll(arguments);
        return command;
    }
}
