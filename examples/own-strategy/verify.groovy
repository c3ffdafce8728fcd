// Both workers must have the same weights, and have learned as well as one process on the same batches.
def log = new File(basedir, 'build.log').text
def accuracies = (log =~ /held-out.*accuracy ([\d.]+) %/).collect { it[1] as double }
assert accuracies.size() == 15 && accuracies.last() > 98
def differences = (log =~ /differ by ([\d.eE-]+)/).collect { it[1] as double }
assert differences.size() == 2 && differences[0] == 0 && differences[1] < 0.05
// A strategy for processes passes all checks.
assert log.contains('20 times under simulated faults: Report[schedules=20, finished=')
true
