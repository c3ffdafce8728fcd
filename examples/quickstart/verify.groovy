// The project must have learned, on a JVM without flags: nothing but the JVM's own warnings, and, where loops are not
// machine code, the advice of the CPU, once.
def log = new File(basedir, 'build.log').text
def accuracies = (log =~ /held-out.*accuracy ([\d.]+) %/).collect { it[1] as double }
assert accuracies.size() == 15 && accuracies.last() > 98
assert log.count('--add-modules=jdk.incubator.vector adds it') <= 1
// What the README shows is this very program.
def program = new File(basedir, 'src/main/java/Quickstart.java').text
assert new File(basedir, '../../../../README.md').text.contains(program)
true
