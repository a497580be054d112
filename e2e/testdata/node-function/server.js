// A function on @google-cloud/functions-framework that reads events by the cloudevents package, answers what the event's extension "answer"
// asks for ("503,200": first 503, then 200), and prints one line of JSON for each post.
'use strict';

const {createHash} = require('node:crypto');
const functions = require('@google-cloud/functions-framework');
const {getTestServer} = require('@google-cloud/functions-framework/testing');
const {HTTP} = require('cloudevents');

// Neither package undoes the percent-encoding that the HTTP binding asks for, so that a function does it by itself.
const decoded = value => (typeof value === 'string' ? decodeURIComponent(value) : value);

const posts = new Map();

functions.http('claims', (req, res) => {
  const event = HTTP.toEvent({headers: req.headers, body: req.rawBody.toString()});
  const attributes = {};
  for (const [name, value] of Object.entries(event.toJSON())) {
    if (name !== 'data') attributes[name] = decoded(value);
  }
  const nth = posts.get(event.id) || 0;
  posts.set(event.id, nth + 1);
  const answers = (event.answer || '204').split(',');
  const status = Number(answers[Math.min(nth, answers.length - 1)]);
  console.log(JSON.stringify({
    attributes,
    data: event.data,
    sha256: createHash('sha256').update(req.rawBody).digest('hex'),
    status,
    traceparent: req.header('traceparent'),
    attempt: req.header('siding-attempt'),
    cycle: req.header('siding-cycle'),
  }));
  if (status === 429) res.set('Retry-After', '1');
  res.status(status).send(status === 422 ? 'no policy has this number\n' : '');
});

const server = getTestServer('claims');
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({port: server.address().port})));
