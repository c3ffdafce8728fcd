// Both servers must have answered eight threads as the model does.
def log = new File(basedir, 'build.log').text
assert log.contains('HttpServing answered 400 requests')
assert log.contains('SpringServing answered 400 requests')
true
